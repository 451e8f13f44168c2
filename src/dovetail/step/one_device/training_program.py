"""A training graph as one device's list of work: seconds of every row, what it waits for and what it sets off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.cost.costs import op_costs
from dovetail.hardware.chip import Chip
from dovetail.step.one_device.contention import beside_blocks
from dovetail.step.one_device.shared_chip import Slowdowns
from dovetail.workload.graph import Block, Graph, Ops, Phase
from dovetail.workload.model import Model
from dovetail.workload.operators import OPERATORS
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

FP16_BYTES = 2
PRODUCTS = ("linear", "convolution", "recurrent_linear")
TABLES = "embedding_bag"  # split over devices, so that their gradients go by all-to-all
RUNS = (Phase.FORWARD, Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
PRECISION = Precision(compute="fp16", gradients="fp16", has_persistent_gradients=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AceWorkload:
    """One of the paper's workloads: what one device trains, and the one scale on its compute times."""

    name: str
    model: Model
    samples_per_device: int
    counts_all_parameters: bool  # or only the weights of products, as the paper's ResNet-50 does
    all_to_all_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One row of compute; `waits` and `issues` name collectives, '' for none.

    `hbm_frac` is the share of the chip's HBM bandwidth that it takes while it runs alone, `core_frac` the share of its
    time that stretches with fewer or slower cores, `slowdowns` what held units cost its kernel where that is asked for.
    """

    name: str
    compute_s: float
    waits: str = ""
    issues: str = ""
    hbm_frac: float = 0.0
    core_frac: float = 1.0
    slowdowns: Slowdowns = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One iteration of one device in order, and the payload of each all-reduce it issues."""

    forward: tuple[Item, ...]
    backward: tuple[Item, ...]
    gradient_bytes: tuple[tuple[str, float], ...]
    all_to_all_bytes: float

    @property
    def compute_s(self) -> float:
        return sum(item.compute_s for item in (*self.forward, *self.backward))

    def scaled(self, compute_scale: float) -> Program:
        """The same with all compute times multiplied by one number."""
        forward, backward = (
            tuple(replace(item, compute_s=item.compute_s * compute_scale) for item in items)
            for items in (self.forward, self.backward)
        )
        return replace(self, forward=forward, backward=backward)


def chip_share(chip: Chip, memory_bytes_per_s: float, num_sms: int) -> Chip:
    """`chip` with only so much of its memory bandwidth and so many of its SMs."""
    frac = num_sms / chip.tensor.num_units
    rates = tuple((dtype, rate * frac) for dtype, rate in chip.tensor.rates)
    return replace(
        chip,
        hbm=replace(chip.hbm, bandwidth_bytes_per_s=memory_bytes_per_s),
        tensor=replace(chip.tensor, num_units=num_sms, rates=rates),
        vector=replace(chip.vector, num_units=num_sms, peak_flop_per_s=chip.vector.peak_flop_per_s * frac),
    )


def program(workload: AceWorkload, chip: Chip, held_counts: tuple[int, ...] = ()) -> Program:
    """`workload` on `chip` by the cost model: forward and backward rows, no recompute and no optimizer update.

    With `held_counts`, every row knows its slow-down beside so many units held by a collective.
    """
    job = Workload(
        model=workload.model,
        global_batch=workload.samples_per_device,
        seq=workload.model.seq,
        precision=PRECISION,
    )
    forward: list[Item] = []
    backward: list[list[Item]] = []
    gradients: dict[str, float] = {}
    graph = job.training_graph()
    rows_by_block = {id(block): rows_of(block.ops, chip, held_counts) for block in graph.blocks}
    for name, block in _instances(graph):
        weights = _gradient_bytes(block.ops, workload.counts_all_parameters)
        rows = rows_by_block[id(block)]
        gradients |= {f"{name}/{row}": size for row, size in weights.items()}
        forward += [
            row.item(name, waits=f"{name}/{row.name}" if row.name in weights else "")
            for row in rows
            if row.phase == Phase.FORWARD
        ]
        backward.append(_backward(name, [row for row in rows if row.phase != Phase.FORWARD], set(weights)))
    program_plain = Program(
        forward=tuple(forward),
        backward=tuple(item for items in reversed(backward) for item in items),
        gradient_bytes=tuple(gradients.items()),
        all_to_all_bytes=workload.all_to_all_bytes,
    )
    return _with_all_to_all(program_plain) if workload.all_to_all_bytes else program_plain


def _instances(graph: Graph) -> Iterator[tuple[str, Block]]:
    seen: dict[str, int] = {}
    for block in graph.blocks_in_order:
        index = seen.get(block.name, 0)
        seen[block.name] = index + 1
        yield f"{block.name}.{index}", block


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a graph that runs, and what it takes of a chip."""

    name: str
    phase: int
    compute_s: float
    hbm_frac: float
    core_frac: float
    slowdowns: Slowdowns = ()

    def item(self, block: str, waits: str = "", issues: str = "") -> Item:
        return Item(
            name=f"{block}/{self.name}",
            compute_s=self.compute_s,
            waits=waits,
            issues=issues,
            hbm_frac=self.hbm_frac,
            core_frac=self.core_frac,
            slowdowns=self.slowdowns,
        )


def rows_of(ops: Ops, chip: Chip, held_counts: tuple[int, ...] = ()) -> list[Row]:
    """The rows that run, in order; network rows among them take no time."""
    slowdowns = [beside_blocks(ops, chip, count).compute_slowdown.tolist() for count in held_counts]
    costs = op_costs(ops, chip)
    hbm_bytes_per_s = chip.hbm.bandwidth_bytes_per_s * chip.calibration.hbm_frac
    rows = []
    for i in range(len(ops)):
        compute_s = float(costs.compute_s[i])
        if ops.phase[i] not in RUNS:
            continue
        hbm_s, core_s = float(costs.hbm_bytes[i]) / hbm_bytes_per_s, float(costs.clocked_s[i])
        rows.append(
            Row(
                name=ops.names[i],
                phase=int(ops.phase[i]),
                compute_s=compute_s,
                hbm_frac=min(1.0, hbm_s / compute_s) if compute_s else 0.0,
                core_frac=min(1.0, core_s / compute_s) if compute_s else 0.0,
                slowdowns=tuple((count, found[i]) for count, found in zip(held_counts, slowdowns, strict=True)),
            )
        )
    return rows


def _gradient_bytes(ops: Ops, counts_all: bool) -> dict[str, float]:
    """Bytes to all-reduce for each row that owns weights."""
    found: dict[str, float] = {}
    for i in range(len(ops)):
        kind = OPERATORS[ops.kind[i]].name
        if ops.phase[i] != Phase.FORWARD or ops.is_tied[i] or kind == TABLES:
            continue
        if counts_all:
            count = int(ops.weight_elements[i] + ops.bias_elements[i])
        else:
            count = int(ops.weight_elements[i]) if kind in PRODUCTS else 0
        if count:
            found[ops.names[i]] = float(FP16_BYTES * count)
    return found


def _backward(block: str, rows: list[Row], weighted: set[str]) -> list[Item]:
    """Rows in order; a weight's all-reduce goes out after the last row that works on its gradient."""
    last = {row.name.rpartition(":")[0]: index for index, row in enumerate(rows)}
    items = []
    for index, row in enumerate(rows):
        owner = row.name.rpartition(":")[0]
        is_ready = owner in weighted and last[owner] == index
        items.append(row.item(block, issues=f"{block}/{owner}" if is_ready else ""))
    return items


def _with_all_to_all(program: Program) -> Program:
    """DLRM: looked-up rows go out after the lookup and are awaited at the join; their gradients the other way."""
    issues = {"tables": "all-to-all", "join:dx": "all-to-all:dx"}
    waits = {"join": "all-to-all", "tables:dw": "all-to-all:dx"}

    def changed(item: Item) -> Item:
        row = item.name.rpartition("/")[2]
        return replace(item, issues=issues.get(row, item.issues), waits=waits.get(row, item.waits))

    forward, backward = (tuple(map(changed, items)) for items in (program.forward, program.backward))
    return replace(program, forward=forward, backward=backward)
