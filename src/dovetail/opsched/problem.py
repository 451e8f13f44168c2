"""Operators on the cores of one chip: the scheduling problem as a value, in whole beats, and a schedule as its answer.

Every operator runs once, in one of its *modes*: so many tensor and vector cores, a part of the HBM bandwidth, of the
SRAM bandwidth and of the SRAM, for so long. Whatever runs at one moment may hold no more of anything than the chip has.
List scheduler, exact solvers, bounds and checker all read these numbers and no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.workload.graph import FloatArray, IntArray, csr

RESOURCES = ("tensor cores", "vector cores", "HBM bandwidth", "SRAM bandwidth", "SRAM")
TENSOR, VECTOR, HBM, SRAM, SRAM_BYTES = range(len(RESOURCES))
WHOLE = 2**11  # what bandwidths and SRAM are counted in: parts of all there is
NUM_BEATS = 2**17  # in which all operators, one after another and each at its fastest, are measured


class Dag(NamedTuple):
    """Who waits for whom: successors and predecessors in CSR, and an order that respects both."""

    edge_start: IntArray
    edge_to: IntArray
    back_start: IntArray
    back_to: IntArray
    order: IntArray


class Modes(NamedTuple):
    """Ways to run each operator: those of operator i are `start[i]:start[i+1]`, the shortest first.

    `need` is modes by RESOURCES; `share_beats` is time times the largest share held of anything.
    """

    start: IntArray
    beats: IntArray
    need: IntArray
    share_beats: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tensors:
    """What operators leave in HBM: of each tensor who makes it, its bytes, and who must end before it goes, in CSR.

    A tensor that no operator uses stays to the end. `resident_bytes` are there all the time: weights and their state.
    """

    maker: IntArray
    tensor_bytes: FloatArray
    use_start: IntArray
    use_to: IntArray
    resident_bytes: float = 0.0


NO_TENSORS = Tensors(
    maker=np.zeros(0, np.int64),
    tensor_bytes=np.zeros(0),
    use_start=np.zeros(1, np.int64),
    use_to=np.zeros(0, np.int64),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoreProblem:
    """Operators with their modes, precedence and tensors, on a chip with `stock` of each of RESOURCES."""

    names: tuple[str, ...]
    dag: Dag
    modes: Modes
    stock: IntArray
    tensors: Tensors
    beat_s: float
    sram_bytes: float  # what WHOLE of the SRAM is
    hbm_bytes: float

    def __post_init__(self) -> None:
        counts = np.diff(self.modes.start)
        if len(self.names) and int(counts.min()) < 1:
            name = self.names[int(counts.argmin())]
            raise InvalidInput(f"every operator needs a way to run; {name!r} has none")
        over = np.argwhere(self.modes.need > self.stock)
        if len(over):
            mode, what = over[0]
            name = self.names[int(np.searchsorted(self.modes.start, mode, side="right")) - 1]
            got = f"{self.modes.need[mode, what]} of {self.stock[what]} {RESOURCES[what]}"
            raise InvalidInput(f"no operator may need more than the chip has; {name!r} needs {got}")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edges(self) -> tuple[IntArray, IntArray]:
        """(from, to) of every edge."""
        return np.repeat(np.arange(len(self)), np.diff(self.dag.edge_start)), self.dag.edge_to


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoreSchedule:
    """When each operator starts and in which mode; `bound_beats` no schedule of the problem can beat."""

    problem: CoreProblem
    start_beats: IntArray
    mode: IntArray
    bound_beats: int

    @property
    def end_beats(self) -> IntArray:
        return np.asarray(self.start_beats + self.problem.modes.beats[self.mode])

    @property
    def makespan_beats(self) -> int:
        return int(self.end_beats.max(initial=0))

    @property
    def makespan_s(self) -> float:
        return self.makespan_beats * self.problem.beat_s

    @property
    def bound_s(self) -> float:
        return self.bound_beats * self.problem.beat_s

    @property
    def gap_frac(self) -> float:
        """How much of the makespan a better schedule could save at most."""
        return 1.0 - self.bound_beats / self.makespan_beats if self.makespan_beats else 0.0


def dag_of(num_operators: int, sources: IntArray, targets: IntArray) -> Dag:
    """The graph of edges from `sources` to `targets`; raises where it goes in a circle."""
    edge_start, edge_to = csr(num_operators, sources, targets)
    back_start, back_to = csr(num_operators, targets, sources)
    return Dag(edge_start, edge_to, back_start, back_to, _topological(edge_start, edge_to, np.diff(back_start)))


def reversed_dag(dag: Dag) -> Dag:
    """The same graph run backwards in time."""
    return Dag(dag.back_start, dag.back_to, dag.edge_start, dag.edge_to, dag.order[::-1].copy())


def _topological(edge_start: IntArray, edge_to: IntArray, num_inputs: IntArray) -> IntArray:
    """Operators so that each comes after those it waits for, first come first served."""
    starts, targets, waiting = edge_start.tolist(), edge_to.tolist(), num_inputs.tolist()
    order = [operator for operator, count in enumerate(waiting) if count == 0]
    for operator in order:  # grows while it is walked
        for target in targets[starts[operator] : starts[operator + 1]]:
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    if len(order) != len(waiting):
        num_stuck = len(waiting) - len(order)
        raise InvalidInput(f"operators must not wait for each other in a circle; {num_stuck} of {len(waiting)} do")
    return np.array(order, dtype=np.int64)


def modes_of(counts: IntArray, beats: IntArray, need: IntArray, stock: IntArray) -> Modes:
    """Modes with the shortest first; `counts` operators' modes stand together in `beats` and `need`."""
    owner = np.repeat(np.arange(len(counts)), counts)
    share = (need / np.maximum(stock, 1)).max(axis=1, initial=0.0)
    share_beats = np.ceil(beats * share).astype(np.int64)
    order = np.lexsort((share_beats, beats, owner))
    start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Modes(start, beats[order], np.ascontiguousarray(need[order]), share_beats[order])
