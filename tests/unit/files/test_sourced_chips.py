"""Figures say where they come from, and parts of a chip follow from its family: what is written is read back."""

from __future__ import annotations

import dataclasses

import pytest

from dovetail.cost.tdp import tdp
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.chip_format import chip_text, nice_quantity
from dovetail.files.job_text import chip_entries
from dovetail.files.value_formats import yaml_lines
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.families import families, left_out_of
from dovetail.hardware.families.gpu import gpu_calibration
from dovetail.units import GIBI, GIGA, TERA

WRITTEN = """\
name: mine
vendor: me
year: {value: 2030, source: roadmap}
process: 5 nm
clock: 1.5 GHz
tensor:
  source: paper, table 2
  units: 4
  rows: {value: 128, source: die photograph}
  cols: 128
  tiling: {tiles: [[128, 128]], stationary: [weight, input]}
  rates: {bf16: 196 TFLOP/s, int8: {value: 393 TFLOP/s, source: slide 7}}
vector: {units: 1, lanes: 2048, peak: 6.144 TFLOP/s}
core_buffer: 64 MiB
sram: {capacity: 64 MiB, bandwidth: 18 TB/s}
hbm: {capacity: 32 GiB, bandwidth: 1.2 TB/s, technology: hbm3}
tdp: 300 W
interconnect: 400 Gb/s
calibration: {family: tpu}
energy: {model: components}
facts: [{what: die area, value: 300 mm2, source: rumour}]
"""


def read(write, text: str) -> Chip:
    return load_chip(str(write(text, "mine.yaml")))


@pytest.mark.parametrize("name", chips.names())
def test_every_chip_of_the_catalogue_comes_back_from_its_text_to_the_last_bit(write, name):
    chip = chips[name]()
    found = load_chip(str(write(chip_text(chip, remarks=("a remark",)), "again.yaml")))
    assert dict(found.sources) == dict(chip.sources)
    assert dataclasses.replace(found, sources=chip.sources) == chip


def test_a_figure_has_its_own_source_that_of_its_part_or_the_files(write):
    sources = dict(read(write, WRITTEN).sources)
    assert sources["year"] == "roadmap"
    assert sources["tensor"] == "paper, table 2"
    assert sources["tensor.num_rows"] == "die photograph"
    assert sources["tensor.rates.int8"] == "slide 7"
    assert "tensor.num_units" not in sources  # its part's speaks for it
    assert sources["vector.num_lanes"] == "given in mine.yaml"


def test_a_source_at_the_top_is_that_of_all_figures_without_another(write):
    sources = dict(read(write, f"source: my datasheet\n{WRITTEN}").sources)
    assert sources["vector.num_lanes"] == sources["hbm.capacity_bytes"] == "my datasheet"
    assert sources["year"] == "roadmap"


def test_a_changed_figure_takes_the_source_beside_it_in_the_place_of_the_bases(write):
    base = chips["a100-80gb-sxm"]()
    chip = read(write, "{base: a100-80gb-sxm, tdp: {value: 300 W, source: the 300 W mode}, tensor: {units: 100}}")
    assert [path for path, _ in chip.sources][: len(base.sources)] == [path for path, _ in base.sources]
    assert dict(chip.sources)["tdp_w"] == "the 300 W mode"
    assert dict(chip.sources)["tensor.num_units"] == "given in mine.yaml"


def test_facts_are_those_of_the_file_or_the_bases(write):
    assert read(write, WRITTEN).facts == (("die area", "300 mm2", "rumour"),)
    assert read(write, "{base: tpu-v4, tdp: 150 W}").facts == chips["tpu-v4"]().facts
    assert read(write, "{base: tpu-v4, facts: []}").facts == ()


def test_the_calibration_of_a_family_is_no_copy_of_the_bases(write):
    base = chips["a100-80gb-sxm"]()
    chip = read(write, "{base: a100-80gb-sxm, clock: 2 GHz, calibration: {family: gpu}}")
    assert chip.calibration == gpu_calibration(2 * GIGA)
    assert chip.calibration.launch_s < base.calibration.launch_s  # it waits for fewer seconds at a higher clock
    assert chip.calibration.host_op_s < base.calibration.host_op_s  # the base's host is an old one
    assert dict(chip.sources)["calibration"] == families["gpu"].source
    slow = read(write, "{base: a100-80gb-sxm, calibration: {family: gpu, host_slower: 1.35}}")
    assert slow.calibration == base.calibration


def test_a_number_beside_a_family_stands_and_says_so(write):
    chip = read(write, "{base: tpu-v4, calibration: {family: tpu, tensor_frac: 0.5}}")
    assert chip.calibration.tensor_frac == 0.5
    assert chip.calibration.hbm_frac == chips["tpu-v4"]().calibration.hbm_frac
    assert chip.calibration.fitted_on == "given in mine.yaml; the rest as the family tpu"
    assert dict(chip.sources)["calibration.tensor_frac"] == "given in mine.yaml"


def test_the_error_of_a_chip_is_that_of_its_family(write):
    assert left_out_of(read(write, WRITTEN).calibration) == families["tpu"].left_out
    alone = "{base: tpu-v4, calibration: {family: paper}}"
    assert left_out_of(read(write, alone).calibration) == families["paper"].left_out


def test_energies_of_a_model_follow_from_the_chip_but_for_those_given(write):
    chip = read(write, WRITTEN)
    assert chip.energy.idle_w == pytest.approx(float(tdp(chip).static_w))  # one idle power, by the silicon
    older = read(write, WRITTEN.replace("process: 5 nm", "process: 16 nm"))
    assert older.energy.tensor_j_per_flop / chip.energy.tensor_j_per_flop == pytest.approx(1.84 / 0.8)
    idle = read(write, WRITTEN.replace("{model: components}", "{model: components, idle: 40 W, hbm_per_byte: 30 pJ}"))
    assert idle.energy == dataclasses.replace(chip.energy, idle_w=40.0, hbm_j_per_byte=idle.energy.hbm_j_per_byte)
    assert idle.energy.hbm_j_per_byte == pytest.approx(30e-12)


def test_a_memory_technology_is_that_of_the_die(write):
    assert read(write, WRITTEN).die.hbm_generation == "HBM3"
    assert read(write, "{base: tpu-v4, hbm: {technology: HBM2e}}").die.hbm_generation == "HBM2e"


def test_the_source_of_a_die_does_not_speak_for_what_is_implied(write):
    sources = dict(read(write, f"{WRITTEN}die: {{source: slide 3, node: 4 nm}}\n").sources)
    assert sources["die.node_m"] == "slide 3"
    assert sources["die"].startswith("estimate: implied")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("{family: tpu}", "{family: tpus}", "no family is named 'tpus'; did you mean tpu"),
        ("{family: tpu}", "{host_slower: 2}", "host_slower is of a family's calibration; set family too"),
        ("{model: components}", "{model: parts}", "no energy model is named 'parts'"),
        ("{model: components}", "{idle: 30 W}", "tensor_per_flop is missing; give it, or name a base"),
        (
            "technology: hbm3",
            "technology: dram",
            "technology must be one of HBM2, HBM2e, HBM3, HBM3e, GDDR6, GDDR6X, GDDR7",
        ),
        ("source: roadmap", "source: 7", "a source says in words where a figure comes from; got 7"),
        ("source: roadmap", "note: x", "value goes with its source, and nothing else; got 'note'"),
        ("what: die area, ", "", "what is missing"),
        (
            "process: 5 nm",
            "process: 5 nm\ndie: {hbm_generation: HBM2}",
            "hbm.technology and die.hbm_generation set the same thing",
        ),
        ("process: 5 nm", "process: 5 nm\ndie: {node: 14 nm}", "energies are estimated on 3 nm, 4 nm"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(write, before, after, message):
    assert before in WRITTEN
    with pytest.raises(DovetailError) as refused:
        read(write, WRITTEN.replace(before, after))
    assert refused.value.message.startswith(message)
    assert "mine.yaml" in refused.value.where


@pytest.mark.parametrize("text_of", [chip_text, lambda chip: "\n".join(yaml_lines(chip_entries(chip)))])
def test_what_is_nothing_in_a_chip_and_something_in_its_family_comes_back_as_nothing(write, text_of):
    chip = read(write, "{base: h100-sxm, calibration: {family: gpu, launch: 0 s, stream_frac: 1.0}}")
    assert chip.calibration.launch_s == 0 < families["gpu"].calibration(GIGA, 1.0).launch_s
    assert load_chip(str(write(text_of(chip), "again.yaml"))).calibration == chip.calibration


def test_quantities_are_written_in_the_unit_in_which_they_are_shortest():
    assert nice_quantity(80 * GIBI, "bytes") == "80 GiB"
    assert nice_quantity(1.228 * TERA, "bytes_per_s") == "1228 GB/s"
    assert nice_quantity(0.1 + 0.2, "w") == "0.30000000000000004 W"


def test_a_chip_without_a_base_needs_all_but_what_follows_from_the_rest(write):
    with pytest.raises(InvalidInput, match="clock is missing"):
        read(write, WRITTEN.replace("clock: 1.5 GHz\n", ""))


def test_arrays_that_are_said_to_do_more_than_there_is_of_them_are_refused(write):
    with pytest.raises(
        InvalidInput, match=r"8 arrays of 1 x 128 at 1.05 GHz do 2.2 TFLOP/s at most; got 275.0 TFLOP/s"
    ):
        load_chip(str(write("base: tpu-v4\nname: thin\ntensor: {rows: 1}\n")))
    assert load_chip(str(write("base: tpu-v4\nname: wide\ntensor: {rows: 256}\n"))).tensor.num_rows == 256


def test_a_core_buffer_beside_vector_memory_is_that_memory(write):
    whole = read(write, "{base: tpu-v4, vector_memory: {capacity: 16 MiB, bandwidth: 20 TB/s}}")
    assert whole.core_buffer_bytes == 8 * 2**20
    with pytest.raises(InvalidInput, match="core_buffer is the vector memory of a core"):
        read(write, "{base: tpu-v4, core_buffer: 8 MiB}")
    assert read(write, "{base: tpuv4-like, core_buffer: 8 MiB}").core_buffer_bytes == 8 * 2**20
