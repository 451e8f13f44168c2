"""Every chip of the catalogue keeps its contract: figures sourced, peaks and clocks in agreement, values plausible."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.accuracy.columns import product_ops
from dovetail.cost.costs import op_costs
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.cost.tdp import tdp
from dovetail.errors import NotModelled
from dovetail.files.catalogue import Filed
from dovetail.files.chip import load_chip
from dovetail.hardware.catalog import chip_of_device, chips, device_names_of
from dovetail.hardware.chip import Chip
from dovetail.hardware.families import families
from dovetail.units import GIBI, GIGA, KIBI, MEBI, TERA
from dovetail.workload.graph import Phase

GPU_VENDORS = ("NVIDIA", "AMD")
GPUS = tuple(name for name in chips.names() if chips[name]().vendor in GPU_VENDORS)
TPUS = tuple(name for name in chips.names() if name.startswith("tpu-"))
EVERY_CHIP = pytest.mark.parametrize("name", chips.names())
KNOWN_DTYPES = {"fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"}
PEAK_TOLERANCE = 0.05
# Least share of its memory that a GPU shows PyTorch. HBM brings its error correction; GDDR6 gives a sixteenth for it.
LEAST_VISIBLE_FRAC = {"GDDR6": 0.91}
LEAST_VISIBLE_HBM_FRAC = 0.97
# From this share of the tensor peak on, lanes may draw more than the tensor units (MI300X: 163 of 1,307 TFLOP/s).
STRONG_LANES_FRAC = 0.1
# Names of chips by how they begin that were fitted, and the chips that must be named in what they were fitted on.
FITTED = {"a100-": "A100", "h100-": "H100", "h200-": "H200", "tpu-v": "TPU v4"}
OFF_CLOCK = "not at clock_hz"  # the word in a source that excuses a vector peak stated at another clock


UNSOURCED = ("given in ", "\0")  # what the reader of a file says of a figure without one; and nothing at all


def figures(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a chip with its dotted path; dtype tables and tiles are subtrees."""
    if isinstance(value, int | float):
        yield path, value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in ("sources", "facts"):
                yield from figures(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            keyed = isinstance(item, tuple)
            yield from figures(item[1] if keyed else item, f"{path}.{item[0] if keyed else index}")


def source_of(chip: Chip, path: str) -> str:
    """The most specific source whose key is the path or a subtree it lies in; empty when there is none."""
    covering = [(key, text) for key, text in chip.sources if path == key or path.startswith(f"{key}.")]
    return max(covering, key=lambda pair: len(pair[0]), default=("", ""))[1] or UNSOURCED[1]


def array_dtype(chip: Chip) -> str:
    """The dtype whose multiply-accumulates rows x cols counts: bf16, else fp16, else int8."""
    known = dict(chip.tensor.rates)
    return next(dtype for dtype in ("bf16", "fp16", "int8") if dtype in known)


@EVERY_CHIP
def test_every_figure_has_a_source(name: str) -> None:
    chip = chips[name]()
    bare = [path for path, _ in figures(chip) if source_of(chip, path).startswith(UNSOURCED)]
    assert not bare, f"sources of {name} say nothing of {', '.join(bare)}"


@EVERY_CHIP
def test_every_source_names_a_field_once(name: str) -> None:
    chip = chips[name]()
    paths = [path for path, _ in figures(chip)]
    keys = [key for key, _ in chip.sources]
    assert len(set(keys)) == len(keys)
    assert [key for key in keys if not any(p == key or p.startswith(f"{key}.") for p in paths)] == []


@EVERY_CHIP
def test_every_fact_says_what_how_much_and_where_from(name: str) -> None:
    for fact in chips[name]().facts:
        assert len(fact) == 3
        assert all(part.strip() for part in fact), fact


@EVERY_CHIP
def test_a_chip_is_named_as_registered_in_a_file_of_that_name(name: str) -> None:
    assert chips[name]().name == name
    entry = chips[name]
    assert isinstance(entry, Filed), f"{name} is in no file of the catalogue: write it in NAME.yaml"
    assert entry.file.name == f"{name}.yaml"


@EVERY_CHIP
def test_a_chip_is_an_unchanging_value(name: str) -> None:
    chip = chips[name]()
    assert chip == chips[name]()
    assert hash(chip) == hash(chips[name]())
    with pytest.raises(dataclasses.FrozenInstanceError):
        chip.clock_hz = 1.0  # type: ignore[misc]


@EVERY_CHIP
def test_the_arrays_at_the_clock_give_the_tensor_peak(name: str) -> None:
    chip = chips[name]()
    units = chip.tensor
    derived_flop_per_s = 2 * units.num_units * units.num_rows * units.num_cols * chip.clock_hz
    assert derived_flop_per_s == pytest.approx(chip.peak_flop_per_s(array_dtype(chip)), rel=PEAK_TOLERANCE)


@EVERY_CHIP
def test_the_lanes_at_the_clock_give_the_vector_peak_or_the_source_says_why_not(name: str) -> None:
    chip = chips[name]()
    derived_flop_per_s = 2 * chip.vector.num_units * chip.vector.num_lanes * chip.clock_hz
    if OFF_CLOCK not in source_of(chip, "vector.peak_flop_per_s"):
        assert derived_flop_per_s == pytest.approx(chip.vector.peak_flop_per_s, rel=PEAK_TOLERANCE)


CUT = (("b300", "int8"), ("gb300", "int8"))  # Blackwell Ultra gave integer units up for fp4


@EVERY_CHIP
def test_dtypes_are_known_ones_and_fewer_bits_are_never_slower(name: str) -> None:
    rates = dict(chips[name]().tensor.rates)
    assert set(rates) <= KNOWN_DTYPES
    by_width = [
        ("fp32", "tf32"),
        ("tf32", "bf16"),
        ("fp32", "bf16"),
        ("bf16", "fp8"),
        ("bf16", "int8"),
        ("fp8", "fp4"),
        ("fp32", "fp16"),
    ]
    for wider, narrower in by_width:
        if wider in rates and narrower in rates and (name, narrower) not in CUT:
            assert rates[wider] <= rates[narrower], (wider, narrower)


@EVERY_CHIP
def test_figures_are_plausible(name: str) -> None:
    chip = chips[name]()
    assert 2015 <= chip.year <= 2030
    assert 0.5 * GIGA <= chip.clock_hz <= 3 * GIGA
    assert 10 * TERA <= chip.peak_flop_per_s(array_dtype(chip)) <= 10_000 * TERA
    assert 50 <= chip.tdp_w <= 2000
    assert 16 * KIBI <= chip.core_buffer_bytes <= 256 * MEBI
    assert 1 * MEBI <= chip.sram.capacity_bytes <= 512 * MEBI
    assert 8 * GIBI <= chip.hbm.capacity_bytes <= 512 * GIBI
    assert 0.3 * TERA <= chip.hbm.bandwidth_bytes_per_s <= 20 * TERA  # an L4 has 300 GB/s
    assert 1 * GIGA <= chip.interconnect_bytes_per_s <= 2 * TERA


@EVERY_CHIP
def test_memory_gets_larger_and_slower_outwards(name: str) -> None:
    chip = chips[name]()
    assert chip.core_buffer_bytes <= chip.sram.capacity_bytes < chip.hbm.capacity_bytes
    assert chip.sram.bandwidth_bytes_per_s > chip.hbm.bandwidth_bytes_per_s > chip.interconnect_bytes_per_s


@EVERY_CHIP
def test_hbm_holds_whole_gibibytes(name: str) -> None:
    assert chips[name]().hbm.capacity_bytes % GIBI == 0


@EVERY_CHIP
def test_calibration_says_whether_it_was_fitted_on_this_chip(name: str) -> None:
    """Chips that share a fit say on how many rows of which chips, so that a reader can judge how near theirs is."""
    chip = chips[name]()
    fitted_on = chip.calibration.fitted_on
    shared = [words for prefix, words in FITTED.items() if name.startswith(prefix)]
    if not shared:
        way_out = f"{name} has no calibration of its own: take a family's, and say 'not fitted: ' and why in fitted_on"
        assert fitted_on.startswith("not fitted: "), way_out
        assert "estimate: " in source_of(chip, "calibration"), f"the source of {name}'s calibration says 'estimate: '"
    for words in shared:
        assert re.match(r"[\d,]+ .*(GEMMs|products) of .*" + words, fitted_on)
        assert source_of(chip, "calibration").startswith("fitted on ")


@EVERY_CHIP
def test_large_matrix_products_settle_within_the_power_limit_at_a_sane_clock(name: str) -> None:
    """At full clock they may draw more than the TDP, as GPUs do; the clock then falls until they draw just that."""
    chip = chips[name]()
    size = np.array([8192])
    products = product_ops(1, size, size, size, kind="linear", phase=Phase.FORWARD, dtypes=[array_dtype(chip)])
    load = Load(cost=op_costs(products, chip).total(np.array([True])))
    clock_frac = sustained_clock_frac(load, chip)
    assert chip.energy.idle_w < chip.tdp_w
    assert load.power_w(chip, 1.0) <= 2.5 * chip.tdp_w  # Blackwell: the FLOP of 2.3 H200 within 1.4 times its limit
    assert 0.5 <= clock_frac <= 1
    if clock_frac < 1:
        assert load.power_w(chip, clock_frac) == pytest.approx(chip.tdp_w)
    assert load.power_w(chip, clock_frac) <= chip.tdp_w


@EVERY_CHIP
def test_lanes_draw_less_than_all_else_unless_they_are_strong_for_the_tensor_units(name: str) -> None:
    chip = chips[name]()
    lanes_frac = chip.vector.peak_flop_per_s / chip.peak_flop_per_s(array_dtype(chip))
    try:
        power = tdp(chip)
    except NotModelled:
        return  # it says itself what is not modelled
    lane_w, rest_w = float(power.lane_w), float(power.total_w - power.static_w - power.lane_w)
    said = f"{name}: {lane_w:.0f} W of lanes beside {rest_w:.0f} W of all else, at {lanes_frac:.1%} of their rate"
    assert lane_w <= rest_w or lanes_frac >= STRONG_LANES_FRAC, f"{said}: look at vector.peak_flop_per_s and at die"


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_says_what_drivers_call_it(name: str) -> None:
    names = device_names_of(chips[name])
    way_out = "device_names, what torch.cuda.get_device_name returns, [] where it shows no such device"
    assert names is not None, f"profiles of {name} are not known as its own: give it {way_out}"
    for device in names:
        assert chip_of_device(device) == name, f"{device!r} is the name of {chip_of_device(device)} already"


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_shows_pytorch_less_than_it_has_and_plans_leave_4_percent_of_that(name: str) -> None:
    chip = chips[name]()
    least_frac = LEAST_VISIBLE_FRAC.get(chip.die.hbm_generation, LEAST_VISIBLE_HBM_FRAC)
    said = f"hbm_visible_frac of {name} is {chip.hbm_visible_frac:.3f}; torch's total_memory over the capacity is"
    assert least_frac < chip.hbm_visible_frac < 1, f"{said} above {least_frac:g} and below 1 on such GPUs"
    assert chip.usable_bytes == pytest.approx(0.96 * chip.visible_bytes)


@EVERY_CHIP
def test_gpus_differ_in_pace_and_chips_of_whose_spread_nothing_is_known_are_alike(name: str) -> None:
    spread_frac = chips[name]().calibration.clock_spread_frac
    way_out = "set calibration: {family: gpu} of a GPU, and another family of anything else"
    assert (spread_frac > 0) == (name in GPUS), f"clock_spread_frac of {name} is {spread_frac:g}: {way_out}"


@EVERY_CHIP
def test_the_calibration_of_a_chip_is_that_of_a_family(name: str) -> None:
    chip = chips[name]()
    assert chip.calibration.family in families, f"{name} has no family: set calibration: {{family: ...}}"
    assert (chip.calibration.family == "gpu") == (name in GPUS)
    assert (chip.calibration.family == "tpu") == (name in TPUS)


@pytest.mark.parametrize("name", TPUS)
def test_of_a_tpu_xla_keeps_a_stated_reserve(name: str) -> None:
    chip = chips[name]()
    assert chip.visible_bytes == chip.hbm.capacity_bytes
    assert 0.2 * GIBI < chip.visible_bytes - chip.usable_bytes <= 1.25 * GIBI
    assert "XLA" in dict(chip.sources)["hbm_reserve_frac"]


def test_the_catalogue_has_the_chips_people_ask_for() -> None:
    asked = "tpu-v2 tpu-v3 tpu-v4 tpu-v4i tpu-v5e tpu-v5p tpu-v6e tpu-v7 v100-16gb-sxm v100-32gb-sxm"
    asked += " a100-40gb-sxm a100-80gb-sxm h100-sxm h100-pcie h200-sxm b200 gb200"
    asked += (
        " h800-sxm h20-sxm gh200 a100-80gb-pcie a100-40gb-pcie v100-32gb-pcie l4 a10g rtx-4090 rtx-5090 rtx-pro-6000"
    )
    asked += " mi250x-gcd mi325x mi355x trainium3 ascend-910b t4 p100"
    asked += " mi250x mi300x gaudi2 gaudi3 trainium1 trainium2"
    asked += " nvdla-like tpuv2-like tpuv4-like wham-tpuv2 phaze-tpuv4 nest-tpuv4 ace-npu"
    assert set(asked.split()) <= set(chips.names())


def test_a_v100_has_no_bf16_tensor_rate() -> None:
    with pytest.raises(NotModelled, match="no rate for bf16; it has fp16"):
        chips["v100-32gb-sxm"]().peak_flop_per_s("bf16")


def test_small_and_large_arrays_of_the_wham_baselines_hold_as_many_multipliers() -> None:
    small, large = chips["nvdla-like"](), chips["tpuv2-like"]()
    assert small.peak_flop_per_s("bf16") == large.peak_flop_per_s("bf16")
    assert small.tensor.num_units > large.tensor.num_units


def test_the_example_of_the_guide_keeps_the_contract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Saved or not: whoever tries the guide has the name registered already, so it is taken out for this test."""
    guide = (Path(__file__).parents[2] / "docs" / "howto" / "add-a-chip.md").read_text(encoding="utf-8")
    file = tmp_path / "example-npu.yaml"
    file.write_text(re.findall(r"^```yaml[^\n]*\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)[0], encoding="utf-8")
    others = {name: entry for name, entry in chips.items() if name != "example-npu"}
    monkeypatch.setattr(chips, "_entries", {**others, "example-npu": Filed("chip", file)})
    test_every_figure_has_a_source("example-npu")
    test_every_source_names_a_field_once("example-npu")
    test_the_arrays_at_the_clock_give_the_tensor_peak("example-npu")
    test_the_lanes_at_the_clock_give_the_vector_peak_or_the_source_says_why_not("example-npu")
    test_figures_are_plausible("example-npu")
    test_a_chip_is_named_as_registered_in_a_file_of_that_name("example-npu")
    test_the_calibration_of_a_chip_is_that_of_a_family("example-npu")
    test_calibration_says_whether_it_was_fitted_on_this_chip("example-npu")
    test_large_matrix_products_settle_within_the_power_limit_at_a_sane_clock("example-npu")


def test_a_file_of_the_catalogue_is_read_by_its_path_as_by_its_name() -> None:
    entry: Any = chips["h200-sxm"]
    assert load_chip(str(entry.file)) == chips["h200-sxm"]() is chips["h200-sxm"]()


def test_a_figure_without_a_source_is_noticed() -> None:
    chip = chips["tpu-v4"]()
    bare = dataclasses.replace(chip, sources=tuple(pair for pair in chip.sources if pair[0] != "tdp_w"))
    assert [path for path, _ in figures(bare) if source_of(bare, path) == UNSOURCED[1]] == ["tdp_w"]
