"""Training loops as rows that share a chip: data parallel, fully sharded (ZeRO-3), tensor and sequence parallel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.comm.torus import Work
from dovetail.hardware.chip import Chip
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.step.one_device.shared_chip import Step
from dovetail.step.one_device.training_program import RUNS, Program, Row, rows_of
from dovetail.workload.graph import Block, M, N, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, OPERATORS, Unit
from dovetail.workload.workload import Workload

Payloads = dict[str, tuple[Work, float]]  # what each named collective does, and with how many bytes
NETWORK_WORK = {"gather": Work.ALL_GATHER, "reduce": Work.REDUCE_SCATTER, "vocab_reduce": Work.ALL_REDUCE}
NUM_HALVES = 2  # of a microbatch: one computes while the other's exchange is under way
BF16_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedProgram:
    """One iteration in order, and the collectives it names."""

    steps: tuple[Step, ...]
    payloads: Payloads


def data_parallel(program: Program) -> SharedProgram:
    """A program of the training loop: gradients are awaited by the next forward pass."""
    steps = tuple(
        Step(
            compute_s=item.compute_s,
            hbm_frac=item.hbm_frac,
            core_frac=item.core_frac,
            slowdowns=item.slowdowns,
            waits=(item.waits,) if item.waits else (),
            issues=(item.issues,) if item.issues else (),
        )
        for item in (*program.forward, *program.backward)
    )
    payloads: Payloads = {name: (Work.ALL_REDUCE, size) for name, size in program.gradient_bytes}
    if program.all_to_all_bytes:
        payloads |= dict.fromkeys(("all-to-all", "all-to-all:dx"), (Work.ALL_TO_ALL, program.all_to_all_bytes))
    return SharedProgram(steps=steps, payloads=payloads)


def _steps(rows: list[Row]) -> list[Step]:
    return [
        Step(compute_s=row.compute_s, hbm_frac=row.hbm_frac, core_frac=row.core_frac, slowdowns=row.slowdowns)
        for row in rows
        if row.compute_s
    ]


def fully_sharded(workload: Workload, chip: Chip, held_counts: tuple[int, ...] = ()) -> SharedProgram:
    """ZeRO-3, one block gathered ahead of the one that runs; gradients scattered behind the backward pass.

    Parameters are gathered again for the backward pass, but for the block that ends the forward pass and begins the
    backward one. The update waits for every gradient; its own time is left out.
    """
    blocks = list(workload.training_graph().blocks_in_order)
    rows = {id(block): rows_of(block.ops, chip, held_counts) for block in _distinct(blocks)}
    visits = [(index, Phase.FORWARD) for index in range(len(blocks))]
    visits += [(index, Phase.INPUT_GRAD) for index in reversed(range(len(blocks)))]
    sizes = [_weight_bytes(block) for block in blocks]
    payloads: Payloads = {}
    steps: list[Step] = []
    for visit, (index, phase) in enumerate(visits):
        is_backward = phase is not Phase.FORWARD
        mine = _steps([row for row in rows[id(blocks[index])] if (row.phase != Phase.FORWARD) == is_backward])
        if visit != len(blocks):
            payloads[f"gather.{visit}"] = (Work.ALL_GATHER, sizes[index])
            mine[0] = replace(mine[0], waits=(f"gather.{visit}",))
        issues: tuple[str, ...] = ()
        if is_backward:
            payloads[f"scatter.{index}"] = (Work.REDUCE_SCATTER, sizes[index])
            issues = (f"scatter.{index}",)
        if visit + 2 < len(visits) and visit + 2 != len(blocks):
            issues = (*issues, f"gather.{visit + 2}")
        mine[-1] = replace(mine[-1], issues=issues)
        steps += mine
    update = tuple(name for name in payloads if name.startswith("scatter"))
    steps.append(Step(compute_s=0.0, hbm_frac=0.0, core_frac=0.0, waits=update, issues=("gather.0", "gather.1")))
    return SharedProgram(steps=tuple(steps), payloads=payloads)


def _distinct(blocks: list[Block]) -> list[Block]:
    return list({id(block): block for block in blocks}.values())


def _weight_bytes(block: Block) -> float:
    is_forward = block.ops.phase == Phase.FORWARD
    return BF16_BYTES * float((block.ops.weight_elements + block.ops.bias_elements)[is_forward].sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """Rows that run without waiting, and the exchanges (what, bytes) that follow the last of them."""

    steps: tuple[Step, ...]
    exchanges: tuple[tuple[Work, float], ...]


def tensor_parallel(workload: Workload, chip: Chip, num_ranks: int, held_counts: tuple[int, ...] = ()) -> SharedProgram:
    """Tensor and sequence parallel over `num_ranks`, two halves of a microbatch in turns; `workload` is one half.

    The exchanges of a half are under way while the other half computes. No gradients are reduced: the group is the
    whole job.
    """
    payloads: Payloads = {}
    steps: list[Step] = []
    pending: list[tuple[str, ...]] = [()] * NUM_HALVES
    for index, segment in enumerate(_segments(workload, chip, num_ranks, held_counts)):
        for half in range(NUM_HALVES):
            named = {f"exchange.{index}.{half}.{i}": pair for i, pair in enumerate(segment.exchanges)}
            chain = list(segment.steps)
            chain[0] = replace(chain[0], waits=pending[half])
            chain[-1] = replace(chain[-1], issues=tuple(named))
            steps += chain
            payloads |= named
            pending[half] = tuple(named)
    waits = tuple(name for names in pending for name in names)
    steps.append(Step(compute_s=0.0, hbm_frac=0.0, core_frac=0.0, waits=waits))
    return SharedProgram(steps=tuple(steps), payloads=payloads)


def _segments(workload: Workload, chip: Chip, num_ranks: int, held_counts: tuple[int, ...]) -> list[_Segment]:
    """The sharded graph cut at its exchanges; those with no product between them go together.

    Norms and additions between two exchanges then run after both, which moves a few percent of the time of one.
    """
    plan = Plan(tensor_parallel=num_ranks, sequence_parallel=True)
    spans = shard(workload.training_graph(), plan).held(0)
    blocks = [block.ops for span, block in spans for _ in range(span.count)]
    rows = {id(ops): _marked(ops, chip, held_counts) for ops in {id(ops): ops for ops in blocks}.values()}
    forward = [row for ops in blocks for row in rows[id(ops)] if row[0].phase == Phase.FORWARD]
    backward = [row for ops in reversed(blocks) for row in rows[id(ops)] if row[0].phase != Phase.FORWARD]
    found: list[_Segment] = []
    held: list[Row] = []
    has_product = True  # what is first ends a segment of its own
    for row, exchange, is_product in (*forward, *backward):
        if exchange is None:
            held.append(row)
            has_product |= is_product
        elif has_product:
            found.append(_Segment(steps=tuple(_steps(held)), exchanges=(exchange,)))
            held, has_product = [], False
        else:
            found[-1] = replace(found[-1], exchanges=(*found[-1].exchanges, exchange))
    return [*found, _Segment(steps=tuple(_steps(held)), exchanges=())]


def _marked(ops: Ops, chip: Chip, held_counts: tuple[int, ...]) -> list[tuple[Row, tuple[Work, float] | None, bool]]:
    """Each row that runs, with its exchange if it is one, and whether it is a product."""
    running = [i for i in range(len(ops)) if ops.phase[i] in RUNS]
    marked = []
    for i, row in zip(running, rows_of(ops, chip, held_counts), strict=True):
        work = NETWORK_WORK.get(OPERATORS[ops.kind[i]].name)
        size = float(ops.extents[i, M] * ops.extents[i, N] * DTYPE_BYTES[ops.dtype[i]])
        marked.append((row, None if work is None else (work, size), ops.unit[i] == Unit.TENSOR))
    return marked
