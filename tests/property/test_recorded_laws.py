"""What a recording amounts to does not depend on how it was cut, ordered, or told to be divided."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.graph import Graph, Ops
from dovetail.workload.layers import Sample
from dovetail.workload.operators import Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.recorded.drafted import Draft, Drafting
from dovetail.workload.recorded.drafts import drafted
from dovetail.workload.recorded.flow import Flow
from dovetail.workload.recorded.merging import merge_products
from dovetail.workload.recorded.sharding import divided
from dovetail.workload.recorded.stretches import stretches_of
from dovetail.workload.recorded.understand import PATTERNS
from dovetail.workload.training import training_graph, with_recompute
from tests.unit.workload.recorded.mixtures import mixture
from tests.unit.workload.recorded.tapes import HEADS, VOCAB, WIDTH, B, S, Tape, product_flop

EXAMPLES = settings(max_examples=15)
LAYERS = ("dense", "grouped", "gated", "parallel", "mixture", "mixed", "normed", "plain")
Toy = tuple[tuple[tuple[str, int], ...], str]
ENDS = ("logits", "tied", "biased", "classifier", "none")


def layer(tape: Tape, x: int, kind: str, index: int) -> int:
    """One layer with its residual."""
    where = f"layers.{index}"
    normed = tape.norm(x, where=f"{where}.norm")
    if kind == "parallel":
        y = tape.add("add", tape.self_attention(normed, where=where), tape.feed_forward(normed, where=where))
    elif kind == "mixture":
        y = mixture(tape, normed, where=f"{where}.moe", is_gated=index % 2 == 0).out
    elif kind == "mixed":  # positions by positions, without a kernel that knows it
        a, b = tape.linear(normed, WIDTH, where=f"{where}.a"), tape.linear(normed, WIDTH, where=f"{where}.b")
        scores = tape.add("relu", tape.add("matmul", a, tape.view(b, B, WIDTH, S), shape=(B, S, S)))
        y = tape.add("matmul", scores, a, shape=(B, S, WIDTH))
    elif kind == "gated":
        gate, up = (tape.linear(normed, 64, bias=True, where=f"{where}.mlp.{name}") for name in ("gate", "up"))
        y = tape.linear(tape.add("mul", tape.add("silu", gate), up), WIDTH, where=f"{where}.mlp.down")
    elif kind == "normed":  # no pair: a norm over all columns stands between
        y = tape.linear(tape.norm(tape.linear(normed, 48, where=f"{where}.a")), WIDTH, bias=True, where=f"{where}.b")
    elif kind == "plain":
        return tape.add("dropout", tape.linear(normed, WIDTH, where=f"{where}.only"))
    else:
        y = tape.self_attention(normed, kv_heads=2 if kind == "grouped" else HEADS, where=where)
        x = tape.add("add", x, y, where=where)
        y = tape.feed_forward(tape.norm(x, where=f"{where}.norm2"), where=where)
    return tape.add("add", x, y, where=where)


def finished(tape: Tape, x: int, end: str, table: int) -> Tape:
    x = tape.norm(x, where="norm")
    if end == "classifier":
        tape.loss(tape.linear(tape.add("mean", x, shape=(B, WIDTH), dims=(1,)), 10, bias=True, where="classifier"))
    else:
        is_tied = end in ("tied", "biased")
        weight = table if is_tied else -1
        logits = tape.linear(x, VOCAB, where="head", weight=weight, bias=end == "biased")
        if end != "none":
            tape.loss(logits)
    return tape


def toys(kinds: tuple[str, ...] = LAYERS, ends: tuple[str, ...] = ENDS) -> st.SearchStrategy[Toy]:
    """Stacks of layers, each a kind and how many, and an end."""
    stacks = st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 4)), min_size=1, max_size=3)
    return st.tuples(stacks.map(tuple), st.sampled_from(ends))


def recorded(toy: Toy) -> Tape:
    """The stacks between an embedding and the end."""
    stacks, end = toy
    tape = Tape()
    x, table = tape.embedding()
    for index, kind in enumerate(kind for kind, repeat in stacks for _ in range(repeat)):
        x = layer(tape, x, kind, index)
    return finished(tape, x, end, table)


def forward(captured: Captured, batch: int, seq: int) -> Graph:
    return captured.forward(Sample(batch=batch, seq=seq, dtype="bf16"))


def drafts_of(tape: Tape) -> Drafting:
    flow = Flow(tape.recorded())
    for take in PATTERNS:
        take(flow)
        flow.settle()
    drafting = drafted(flow)
    merge_products(drafting)
    return drafting


def counted(drafts: list[Draft]) -> Counter[tuple[object, ...]]:
    return Counter((d.kind, d.operator, tuple(d.sizes), tuple(d.axes), d.weight, d.bias) for d in drafts)


@EXAMPLES
@given(toy=toys())
def test_a_captured_model_has_the_parameters_that_were_recorded(toy: Toy) -> None:
    tape = recorded(toy)
    captured = tape.captured()
    assert captured.num_parameters == tape.num_parameters
    assert forward(captured, 2, 16).num_parameters == tape.num_parameters


@EXAMPLES
@given(toy=toys(), batch=st.integers(1, 64), seq=st.integers(1, 16).map(lambda count: 4 * count))
def test_the_flop_at_any_batch_and_length_are_those_of_its_products(toy: Toy, batch: int, seq: int) -> None:
    tape = recorded(toy)
    graph = forward(tape.captured(), batch, seq)
    assert graph.model_flop == product_flop(tape, batch, seq)


@EXAMPLES
@given(toy=toys(), batch=st.integers(1, 32))
def test_twice_the_batch_is_twice_the_flop_and_the_same_parameters(toy: Toy, batch: int) -> None:
    captured = recorded(toy).captured()
    one, two = (forward(captured, count, 16) for count in (batch, 2 * batch))
    assert two.model_flop == 2 * one.model_flop
    assert two.num_parameters == one.num_parameters


@EXAMPLES
@given(toy=toys())
def test_cutting_loses_no_operator_and_adds_none(toy: Toy) -> None:
    drafting = drafts_of(recorded(toy))
    divided(drafting)
    whole = counted(drafting.drafts)
    cut: Counter[tuple[object, ...]] = Counter()
    for stretch in stretches_of(drafting.drafts, drafting.flow):
        for part in stretch.parts:
            sizes, axes = zip(*part.extents, strict=True)
            cut[part.kind, part.operator, sizes, axes, part.weight, part.bias] += stretch.repeat
    assert cut == whole


@EXAMPLES
@given(toy=toys())
def test_dividing_adds_exchanges_and_changes_no_work(toy: Toy) -> None:
    before, after = drafts_of(recorded(toy)), drafts_of(recorded(toy))
    divided(after)

    def work(drafting: Drafting) -> Counter[tuple[object, ...]]:
        return Counter(
            (d.kind, d.operator, d.elements, d.weight, d.bias) for d in drafting.drafts if d.kind != "exchange"
        )

    assert work(after) == work(before)


@EXAMPLES
@given(
    kinds=st.lists(st.sampled_from(("dense", "gated", "normed", "mixed")), min_size=2, max_size=4),
    data=st.data(),
)
def test_the_order_in_which_branches_were_recorded_changes_no_total(kinds: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(kinds))))

    def branched(places: list[int]) -> Graph:
        tape = Tape()
        x, table = tape.embedding()
        ends = {place: layer(tape, x, kinds[place], place) for place in places}
        y = ends[0]
        for place in range(1, len(kinds)):
            y = tape.add("add", y, ends[place])
        return forward(finished(tape, y, "logits", table).captured(), 2, 16)

    one, other = branched(list(range(len(kinds)))), branched(order)
    assert one.model_flop == other.model_flop
    assert one.num_parameters == other.num_parameters
    assert _rows(one) == _rows(other)


def _rows(graph: Graph) -> Counter[tuple[int, ...]]:
    """Operators by kind and extents, exchanges left out: which branches share one depends on their neighbours."""
    found: Counter[tuple[int, ...]] = Counter()
    for block in graph.blocks:
        ops = block.ops
        for row in np.flatnonzero((ops.unit != Unit.NETWORK) & (ops.kind != code_of("input"))):
            found[(int(ops.kind[row]), *ops.extents[row].tolist())] += block.repeat
    return found


def products(ops: Ops) -> float:
    """FLOP of the tensor units, and only theirs: tied weights are updated once, by those that hold them."""
    return float(ops.flop[ops.unit == Unit.TENSOR].sum())


def flop_of_shards(graph: Graph, plan: Plan) -> tuple[float, float]:
    """Those of all devices under `plan`, and those of the whole."""
    check_plan(plan, graph, plan.num_devices)
    cut = shard(graph, plan)
    whole = sum(block.repeat * products(with_recompute(block.ops, "none")) for block in graph.blocks)
    held = [one for stage in range(cut.num_stages) for one in cut.held(stage)]
    shares = sum(span.count * products(block.ops) for span, block in held)
    return shares * (plan.num_devices // plan.pipeline_parallel) * cut.num_microbatches, whole


@EXAMPLES
@given(toy=toys())
def test_a_plan_with_every_degree_one_leaves_the_captured_graph_whole(toy: Toy) -> None:
    graph = training_graph(forward(recorded(toy).captured(), 4, 16), Precision())
    shares, whole = flop_of_shards(graph, Plan(microbatch=4))
    assert shares == whole


@EXAMPLES
@given(
    toy=toys(kinds=("dense", "gated", "parallel", "mixture"), ends=("logits", "tied", "biased", "none")),
    tensor=st.sampled_from((1, 2, 4)),
    data=st.sampled_from((1, 2)),
    context=st.sampled_from((1, 2)),
)
def test_the_flop_of_all_shards_of_a_captured_graph_sum_to_the_whole(
    toy: Toy, tensor: int, data: int, context: int
) -> None:
    stacks, end = toy
    with_attention = ((("dense", 1), *stacks), end)
    graph = training_graph(forward(recorded(with_attention).captured(), 4, 16), Precision())
    plan = Plan(tensor_parallel=tensor, data_parallel=data, context_parallel=context, sequence_parallel=tensor > 1)
    shares, whole = flop_of_shards(graph, plan)
    assert shares == pytest.approx(whole, rel=1e-12)  # style: a tolerance


@EXAMPLES
@given(num_layers=st.integers(2, 8), stages=st.sampled_from((2, 4)), kind=st.sampled_from(LAYERS))
def test_a_pipeline_of_a_captured_model_runs_all_of_it(num_layers: int, stages: int, kind: str) -> None:
    tape = recorded((((kind, num_layers * stages),), "logits"))
    graph = training_graph(forward(tape.captured(), 4, 16), Precision())
    shares, whole = flop_of_shards(graph, Plan(pipeline_parallel=stages))
    assert shares == pytest.approx(whole, rel=1e-12)  # style: a tolerance


@st.composite
def images(draw: st.DrawFn) -> Tape:
    """Convolutions one after another: windows, strides, borders, groups, biases, some of them transposed."""
    tape = Tape()
    channels, side = 8, 32
    x = tape.data(B, channels, side, side)
    for _ in range(draw(st.integers(1, 5))):
        cols, window = draw(st.sampled_from((8, 16))), draw(st.sampled_from((1, 2, 3, 5)))
        groups, stride = draw(st.sampled_from((1, 4, 8))), draw(st.sampled_from((1, 2)))
        bias = (tape.weight(cols),) if draw(st.booleans()) else ()
        is_turned = draw(st.booleans()) and side < 64
        padding = draw(st.integers(0, window // 2))
        shape = (channels, cols // groups) if is_turned else (cols, channels // groups)
        side = (side - 1) * stride - 2 * padding + window if is_turned else (side + 2 * padding - window) // stride + 1
        weight = tape.weight(*shape, window, window)
        made = (B, cols, side, side)
        both, borders = (stride, stride), (padding, padding)
        x = tape.add(
            "convolution", x, weight, *bias, shape=made, stride=both, padding=borders, groups=groups, turned=is_turned
        )
        x = tape.add("relu", x)
        channels = cols
        if side < 8:
            break
    tape.loss(tape.linear(tape.add("mean", x, shape=(B, channels), dims=(2, 3)), 10, bias=True, where="fc"))
    return tape


@EXAMPLES
@given(tape=images(), batch=st.integers(1, 16))
def test_convolutions_of_any_kind_have_their_parameters_and_flop(tape: Tape, batch: int) -> None:
    captured = tape.captured()
    graph = forward(captured, batch, captured.seq)
    assert captured.num_parameters == graph.num_parameters == tape.num_parameters
    assert graph.model_flop == product_flop(tape, batch, 1)
    fracs = [part.shared_frac for stretch in captured.stretches for part in stretch.parts]
    assert all(0.0 < frac <= 1.0 for frac in fracs)
