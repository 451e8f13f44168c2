"""Laws of cost: more of a resource never hurts, no operator beats the datasheet, more work never takes less."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.columns import ChipColumns, chip_columns
from dovetail.cost.cost import Cost
from dovetail.cost.costs import cost_table, op_costs
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.cost.power import Load, at_clock, sustained_clock_frac
from dovetail.cost.vector import MANY_ROWS
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design, template_chip
from dovetail.workload.graph import BoolArray, FloatArray, K, Ops, Phase
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.rows import Row
from tests.unit.cost.paper import op, ops_of

EXAMPLES = settings(max_examples=30)
CATALOGUE = [chip for chip in (entry() for _, entry in chips.items()) if "bf16" in dict(chip.tensor.rates)]
TEMPLATES = [chips[name]() for name in ("tpuv4-like", "tpuv2-like", "nvdla-like")]
ROUNDING = 1e-9  # style: a tolerance
SPLIT_GAIN = 0.06
UPDATES = ("adam", "sgd")
PHASES = (Phase.FORWARD, Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
VECTOR = [o.name for o in OPERATORS if o.unit == Unit.VECTOR]
chip_entries = st.sampled_from(CATALOGUE)
any_setting = st.sampled_from(list(Setting))
sizes = st.integers(1, 9000)


@st.composite
def products(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(("linear", "matmul", "expert_linear", "recurrent_linear")))
    b = 1 if kind == "linear" else draw(st.integers(1, 40))
    fracs = (1.0, 1.0 / b if kind == "recurrent_linear" else 1.0, 1.0)
    phase = draw(st.sampled_from(PHASES))
    return op(kind, b=b, m=draw(sizes), n=draw(sizes), k=draw(sizes), phase=phase, distinct_frac=fracs)


@st.composite
def attentions(draw: st.DrawFn) -> Row:
    heads, width = draw(st.integers(1, 600)), draw(st.integers(8, 256))
    return op(
        "attention",
        b=heads,
        m=draw(sizes),
        n=draw(sizes),
        k=width,
        v=width,
        phase=draw(st.sampled_from(PHASES[:2])),
        distinct_frac=(1.0, draw(st.sampled_from((0.125, 1.0))), 1.0),
        work_frac=draw(st.sampled_from((0.1, 0.5, 1.0))),
    )


@st.composite
def convolutions(draw: st.DrawFn) -> Row:
    pixels, outputs, channels = draw(st.integers(1, 200_000)), draw(st.integers(1, 600)), draw(st.integers(1, 600))
    window, groups = draw(st.sampled_from((1, 9, 49))), draw(st.sampled_from((1, 1, 32)))
    m, n, k = pixels, outputs, window * channels
    phase = draw(st.sampled_from(PHASES))
    if phase == Phase.INPUT_GRAD:
        n, k = k, n
    elif phase == Phase.WEIGHT_GRAD:
        m, k = k, m
    stride = draw(st.sampled_from((1, 2)))
    return op("convolution", b=groups, m=m, n=n, k=k, v=window, stride=stride, phase=phase)


@st.composite
def vectors(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(VECTOR))
    if kind in UPDATES:
        more: dict[str, Any] = {"phase": Phase.UPDATE, "dtype": "fp32", "side_bytes_per_element": 28.0}
    else:
        more = {"phase": draw(st.sampled_from((Phase.FORWARD, Phase.INPUT_GRAD)))}
    m, n, k, v = draw(sizes), draw(st.integers(1, 40_000)), draw(sizes), draw(st.integers(1, 80))
    return op(kind, m=m, n=n, k=k, v=v, is_fused=draw(st.booleans()), **more)


rows = st.one_of(products(), attentions(), convolutions(), vectors())


def seconds(ops: Ops, chips: ChipColumns, setting: Setting = Setting.STREAM) -> FloatArray:
    return cost_table(ops, chips, setting).compute_s[:, 0]


def scaled(chips: ChipColumns, factor: float, *names: str) -> ChipColumns:
    return replace(chips, **{name: factor * getattr(chips, name) for name in names})


# What a designer may add, and the columns that it is. A unit or a core comes with its share of the peak rate. It also
# comes with its share of the SRAM's bandwidth: all units of a wave are fed at once, and one wave that is not full takes
# as long as one that is, so that four units of a GPU can wait longer than three for the same SRAM (five tiles: 2 waves
# of 4 shares in place of 2 of 3).
RESOURCES = {
    "hbm": ("hbm_bytes_per_s",),
    "rate": ("dtype_flop_per_s",),
    "sram": ("sram_bytes",),
    "sram bandwidth": ("sram_bytes_per_s",),
    "buffer": ("core_buffer_bytes",),
    "lane rate": ("vector_flop_per_s",),
    "clock": ("clock_hz", "dtype_flop_per_s", "vector_flop_per_s", "sram_bytes_per_s"),
}


@pytest.mark.parametrize("resource", RESOURCES)
@EXAMPLES
@given(st.lists(rows, min_size=1, max_size=6), chip_entries, st.floats(1.0, 20.0), any_setting)
def test_more_of_a_resource_never_takes_longer(resource, found, chip, factor, setting):
    ops, before = ops_of(*found), chip_columns((chip,))
    after = scaled(before, factor, *RESOURCES[resource])
    assert np.all(seconds(ops, after, setting) <= seconds(ops, before, setting) * (1 + ROUNDING))


cores = st.builds(
    Design,
    num_tensor=st.just(1),
    num_rows=st.sampled_from((8, 32, 128, 256)),
    num_cols=st.sampled_from((8, 32, 128, 256)),
    num_vector=st.sampled_from((1, 2, 16, 64)),
    num_lanes=st.sampled_from((16, 64, 256)),
)
more_cores = st.lists(st.integers(1, 5000), min_size=2, max_size=8, unique=True).map(sorted)


@EXAMPLES
@given(st.lists(rows, min_size=1, max_size=6), st.sampled_from(TEMPLATES), cores, more_cores)
def test_more_arrays_of_a_kind_never_slow_anything_on_a_chip_on_paper(found, base, one, counts):
    """Nothing but arrays is added: neither SRAM nor lanes nor HBM."""
    many = [template_chip(base, replace(one, num_tensor=count)) for count in counts]
    columns = chip_columns([replace(chip, core_buffer_bytes=many[0].core_buffer_bytes) for chip in many])
    table_s = cost_table(ops_of(*found), columns).compute_s
    assert np.all(table_s[:, 1:] <= table_s[:, :-1] * (1 + ROUNDING))


@EXAMPLES
@given(st.lists(attentions(), min_size=1, max_size=6), st.sampled_from(TEMPLATES), cores, more_cores)
def test_more_lanes_in_a_pool_never_slow_attention(found, base, one, counts):
    many = [template_chip(base, replace(one, num_tensor=64, num_vector=count)) for count in counts]
    table_s = cost_table(ops_of(*found), chip_columns(many)).compute_s
    assert np.all(table_s[:, 1:] <= table_s[:, :-1] * (1 + ROUNDING))


@EXAMPLES
@given(st.lists(products(), min_size=1, max_size=6), chip_entries, st.integers(1, 40))
def test_more_units_with_their_share_of_the_sram_never_slow_a_product(found, chip, num_more):
    ops, before = ops_of(*found), chip_columns((chip,))
    factor = 1 + num_more / chip.tensor.num_units
    after = scaled(before, factor, "num_units", "dtype_flop_per_s", "sram_bytes_per_s")
    assert np.all(seconds(ops, after) <= seconds(ops, before) * (1 + ROUNDING))


@EXAMPLES
@given(st.lists(vectors(), min_size=1, max_size=6), chip_entries, st.floats(1.0, 8.0))
def test_more_cores_with_their_share_of_the_sram_never_slow_a_vector_operator(found, chip, factor):
    # more cores keep more rows of a long softmax in flight, which the SRAM must hold
    ops, before = ops_of(*found), chip_columns((chip,))
    after = scaled(before, factor, "num_lanes", "vector_flop_per_s", "sram_bytes")
    assert np.all(seconds(ops, after) <= seconds(ops, before) * (1 + ROUNDING))


def least_bytes(ops: Ops, found: OpCosts) -> FloatArray:
    """What must cross HBM: a product's operands and result once; of a vector operator, what its kernels move."""
    return np.where(ops.unit == Unit.TENSOR, ops.read_bytes + ops.write_bytes, found.hbm_bytes)


def peak_flop_per_s(ops: Ops, chip: Chip) -> FloatArray:
    """The quickest that a chip may do a row: on its tensor units, or on its lanes; thin convolutions too."""
    tensor = max(chip.peak_flop_per_s("bf16"), chip.vector.peak_flop_per_s)
    return np.where(ops.unit == Unit.TENSOR, tensor, chip.vector.peak_flop_per_s)


@settings(max_examples=100)
@given(st.lists(rows, min_size=1, max_size=6), chip_entries, any_setting)
def test_no_operator_beats_the_datasheet(found, chip, setting):
    ops = ops_of(*found)
    costs = op_costs(ops, chip, setting)
    bound_s = np.maximum(
        least_bytes(ops, costs) / chip.hbm.bandwidth_bytes_per_s, ops.flop / peak_flop_per_s(ops, chip)
    )
    assert np.all(costs.compute_s >= bound_s * (1 - ROUNDING))
    assert np.all(costs.hbm_bytes >= least_bytes(ops, costs) * (1 - ROUNDING))


@settings(max_examples=100)
@given(st.lists(rows, min_size=1, max_size=6), chip_entries, any_setting)
def test_what_is_said_of_an_operator_is_consistent(found, chip, setting):
    costs = op_costs(ops_of(*found), chip, setting)
    for field in fields(OpCosts):
        column = getattr(costs, field.name)
        assert np.all(np.isfinite(column) & (column >= 0)), field.name
    assert np.all(costs.clocked_s <= costs.compute_s * (1 + ROUNDING))
    assert np.all(costs.core_j <= costs.energy_j)


def is_sorted_later(ops: Ops) -> BoolArray:
    """Rows whose doubling makes PyTorch sort a table's indices, which it does not for few: another kernel."""
    is_scatter = (np.array(ops.names) == "embedding") & ops.is_backward
    num_rows = ops.extents[:, 0] * ops.extents[:, 1]
    return np.asarray(is_scatter & (num_rows <= MANY_ROWS) & (2 * num_rows > MANY_ROWS))


@settings(max_examples=100)
@given(st.lists(vectors(), min_size=1, max_size=6), chip_entries, any_setting)
def test_twice_the_rows_take_longer_but_at_most_twice(found, chip, setting):
    ops = ops_of(*found)
    extents = ops.extents.copy()
    extents[:, 1] *= 2
    per_step_s, twice_s = (op_costs(o, chip, setting).compute_s for o in (ops, replace(ops, extents=extents)))
    asked = ~is_sorted_later(ops)
    assert np.all(twice_s[asked] >= per_step_s[asked] * (1 - ROUNDING))
    assert np.all(twice_s[asked] <= 2 * per_step_s[asked] * (1 + ROUNDING))


@EXAMPLES
@given(st.lists(products(), min_size=1, max_size=6), chip_entries, st.sampled_from((1, 2, 3)), st.integers(1, 500))
def test_a_larger_product_never_takes_less(found, chip, extent, num_more):
    ops = ops_of(*found)
    extents = ops.extents.copy()
    extents[:, extent] += num_more
    small_s, large_s = (op_costs(o, chip).compute_s for o in (ops, replace(ops, extents=extents)))
    # a contraction that grows by a group may be the first that its library cuts in so many parts, and gain by it
    is_split_anew = extent == K and "output" in chip.tensor.tiling.stationary
    assert np.all(large_s >= small_s * (1 - (SPLIT_GAIN if is_split_anew else ROUNDING)))


@EXAMPLES
@given(st.lists(attentions(), min_size=1, max_size=6), chip_entries, st.integers(1, 300))
def test_attention_of_more_heads_never_takes_less(found, chip, num_more):
    ops = ops_of(*found)
    extents = ops.extents.copy()
    extents[:, 0] += num_more
    few_s, many_s = (op_costs(o, chip).compute_s for o in (ops, replace(ops, extents=extents)))
    assert np.all(many_s >= few_s * (1 - ROUNDING))


@EXAMPLES
@given(st.lists(rows, min_size=2, max_size=8), chip_entries, any_setting)
def test_operators_cost_what_each_costs_in_any_order(found, chip, setting):
    together, reversed_ = (op_costs(ops_of(*order), chip, setting) for order in (found, found[::-1]))
    for field in fields(OpCosts):
        assert np.array_equal(getattr(together, field.name), getattr(reversed_, field.name)[::-1]), field.name


@EXAMPLES
@given(st.lists(rows, min_size=1, max_size=6), chip_entries)
def test_an_operator_alone_is_never_quicker_than_behind_others(found, chip):
    stream, kernel, alone = (op_costs(ops_of(*found), chip, setting).compute_s for setting in Setting)
    assert np.all(kernel >= stream * (1 - ROUNDING))
    assert np.all(alone >= kernel)


@EXAMPLES
@given(st.lists(rows, min_size=1, max_size=6), chip_entries)
def test_costs_of_operators_add_up(found, chip):
    costs = op_costs(ops_of(*found), chip)
    total, everything = Cost(), np.ones(len(found), dtype=np.bool_)
    for index in range(len(found)):
        total = total + costs.total(np.arange(len(found)) == index)
    for field in fields(Cost):
        assert getattr(total, field.name) == pytest.approx(getattr(costs.total(everything), field.name))


@EXAMPLES
@given(st.lists(rows, min_size=1, max_size=6), chip_entries, st.floats(0.0, 2.0), st.floats(0.3, 1.0), st.floats(1, 3))
def test_a_load_settles_where_its_power_is_allowed(found, chip, host_frac, frac, factor):
    cost = op_costs(ops_of(*found), chip).total(np.ones(len(found), dtype=np.bool_))
    load = Load(cost=replace(cost, host_s=host_frac * cost.compute_s))
    limited = replace(chip, tdp_w=chip.energy.idle_w + frac * (load.power_w(chip, 1.0) - chip.energy.idle_w))
    clock_frac = sustained_clock_frac(load, limited)
    assert sustained_clock_frac(load, replace(limited, tdp_w=factor * limited.tdp_w)) >= clock_frac
    slow = at_clock(cost, clock_frac)
    assert slow.compute_s >= cost.compute_s * (1 - ROUNDING)
    assert slow.energy_j <= cost.energy_j * (1 + ROUNDING)
    assert at_clock(cost, 1.0).compute_s == pytest.approx(cost.compute_s)
