"""A chip is written out, or changed from a base, key by key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Tiling
from dovetail.units import GIBI, GIGA, KIBI, MEBI, MICRO, NANO, PICO, TERA


def test_a_chip_with_a_base_keeps_what_it_does_not_change_and_whence_it_came(write):
    text = "{base: h100-sxm, hbm: {capacity: 141 GiB}, tensor: {rates: {fp8: 2 PFLOP/s}}, calibration: {launch: 2 us}}"
    base, chip = chips["h100-sxm"](), load_chip(str(write(text, "large.yaml")))
    assert chip.name == "h100-sxm-changed"
    assert chip.hbm.capacity_bytes == 141 * GIBI
    assert chip.hbm.bandwidth_bytes_per_s == base.hbm.bandwidth_bytes_per_s
    assert chip.peak_flop_per_s("fp8") == 2000 * TERA
    assert chip.peak_flop_per_s("bf16") == base.peak_flop_per_s("bf16")
    assert chip.calibration.launch_s == 2 * MICRO
    assert chip.calibration.fitted_on == "given in large.yaml; the rest as h100-sxm"
    sources, before = dict(chip.sources), dict(base.sources)
    given = {"hbm.capacity_bytes", "tensor.rates.fp8", "calibration.launch_s"}
    assert {figure for figure, source in sources.items() if source == "given in large.yaml"} == given
    assert {figure: source for figure, source in sources.items() if figure not in given} == {
        figure: source for figure, source in before.items() if figure not in given
    }


ALONE = """\
name: mine
vendor: me
year: 2030
process: 3 nm
clock: 1.5 GHz
tensor: {units: 4, rows: 128, cols: 128, tiling: {tiles: [[128, 128]]}, rates: {bf16: 196 TFLOP/s}}
vector: {units: 4, lanes: 128, peak: 1.5 TFLOP/s}
core_buffer: 256 KiB
sram: {capacity: 32 MiB, bandwidth: 4 TB/s}
hbm: {capacity: 32 GiB, bandwidth: 1.2 TB/s}
tdp: 300 W
interconnect: 400 Gb/s
calibration: {tensor_frac: 0.8, vector_frac: 0.8, hbm_frac: 0.9, link_frac: 0.9, launch: 0 s}
energy:
  {tensor_per_flop: 0.5 pJ, vector_per_flop: 8 pJ, sram_per_byte: 9 pJ, hbm_per_byte: 30 pJ,
   link_per_byte: 10 pJ, idle: 50 W}
"""


def test_a_chip_without_a_base_is_written_out(write):
    chip = load_chip(str(write(ALONE, "mine.yaml")))
    assert (chip.clock_hz, chip.tdp_w, chip.interconnect_bytes_per_s) == (1.5 * GIGA, 300, 50 * GIGA)
    assert (chip.tensor.num_units, chip.tensor.tiling, chip.vector.num_lanes) == (4, Tiling(tiles=((128, 128),)), 128)
    assert chip.energy.idle_w == 50
    assert chip.energy.sram_j_per_byte == pytest.approx(9 * PICO)
    assert (chip.calibration.wait_s, chip.calibration.sram_reuse) == (0.0, 1.0)  # what is not said waits for nothing
    assert chip.calibration.fitted_on == "given in mine.yaml"
    assert {source for path, source in chip.sources if path != "die"} == {"given in mine.yaml"}
    assert dict(chip.sources)["die"].startswith("estimate: implied by the other figures")
    assert (chip.die.node_m, chip.die.num_hbm_stacks, chip.die.num_link_lanes) == (3 * NANO, 2, 4)


def test_how_products_are_tiled_is_written_key_by_key(write):
    keys = "tiles: [[64, 128], [128, 64]], stationary: [weight, input], steps: 8, fill: load, staging: 16 MiB"
    text = f"base: h100-sxm\ntensor: {{tiling: {{{keys}, output_hidden: false}}}}\n"
    chip = load_chip(str(write(text, "mine.yaml")))
    assert chip.tensor.tiling == Tiling(
        tiles=((64, 128), (128, 64)),
        stationary=("weight", "input"),
        num_steps=8,
        fill="load",
        staging_bytes=16 * MEBI,
        is_output_hidden=False,
        num_cluster_units=2,  # not written: as the base has it
        num_groups=8,
    )
    assert dict(chip.sources)["tensor.tiling.tiles"] == "given in mine.yaml"


def test_one_changed_key_of_a_tiling_leaves_the_others(write):
    base = chips["tpu-v4"]().tensor.tiling
    chip = load_chip(str(write("base: tpu-v4\ntensor: {tiling: {fill: hidden, stationary: weight}}\n", "mine.yaml")))
    assert chip.tensor.tiling == replace(base, fill="hidden", stationary=("weight",))


def test_what_is_written_of_a_die_stands_and_the_rest_is_implied_or_the_bases(write):
    die = "die: {node: 5 nm, registers: 64 KiB, hbm_generation: HBM3}\n"
    changed = load_chip(str(write(f"base: h100-sxm\n{die}", "changed.yaml")))
    assert (changed.die.node_m, changed.die.hbm_generation) == (5 * NANO, "HBM3")
    assert changed.die.spare_core_frac == pytest.approx(12 / 144)
    assert dict(changed.sources)["die.node_m"] == "given in changed.yaml"
    alone = load_chip(str(write(f"{ALONE}{die}", "alone.yaml")))
    assert (alone.die.node_m, alone.die.register_bytes, alone.die.num_hbm_stacks) == (5 * NANO, 64 * KIBI, 2)


@pytest.mark.parametrize(
    ("die", "message"),
    [
        ("{nodes: 5 nm}", "no key of die is named 'nodes'; did you mean node"),
        ("{node: 5}", "a quantity needs its unit, as in '4 nm'; got 5"),
        ("{spare_core_frac: 1.5}", "spare_core_frac must be from 0 to below 1; got 1.5"),
        ("{dies: 0}", "dies must be at least 1; got 0"),
    ],
)
def test_a_wrong_die_is_refused_in_the_words_of_the_file(write, die, message):
    with pytest.raises(InvalidInput) as refused:
        load_chip(str(write(f"base: h100-sxm\ndie: {die}\n", "mine.yaml")))
    assert refused.value.message.startswith(message)
