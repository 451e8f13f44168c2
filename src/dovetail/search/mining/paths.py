"""The longest path through a graph whose operators take a time by the tensor cores, or one by the vector cores.

For every pairing of the two at once. A path is walked as three parts: a table of pairings where paths met, and what
came since on either kind of cores, which are short rows; only where paths meet are whole tables added and compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dovetail.opsched.problem import Dag
from dovetail.workload.graph import FloatArray


class Behind(NamedTuple):
    """What lies behind an operator, itself included: `met_s` and both rows together."""

    met_s: FloatArray
    tensor_s: FloatArray
    vector_s: FloatArray

    def table_s(self) -> FloatArray:
        return np.asarray(self.met_s + (self.tensor_s[:, None] + self.vector_s))

    def covers(self, other: Behind, nothing: Behind) -> bool:
        """Whether it is the longer one in every pairing, as its rows alone tell; where not, it may be all the same."""
        starts_behind = other.met_s is self.met_s or other.met_s is nothing.met_s
        return starts_behind and bool(
            (other.tensor_s <= self.tensor_s).all() and (other.vector_s <= self.vector_s).all()
        )


def longest_path_s(dag: Dag, tensor_s: FloatArray, vector_s: FloatArray) -> FloatArray:
    """Columns of tensor cores by columns of vector cores; times are operators by columns, at least 0."""
    after = direct_successors(dag)
    found: dict[int, Behind] = {}
    nothing = Behind(np.zeros((1, 1)), np.zeros(tensor_s.shape[1]), np.zeros(vector_s.shape[1]))
    for i in dag.order[::-1].tolist():
        behind = _longest([found[target] for target in after[i]], nothing)
        found[i] = Behind(behind.met_s, behind.tensor_s + tensor_s[i], behind.vector_s + vector_s[i])
    firsts = [found[i] for i in np.flatnonzero(np.diff(dag.back_start) == 0).tolist()]
    return _longest(firsts, nothing).table_s()


def _longest(paths: list[Behind], nothing: Behind) -> Behind:
    """The longest of `paths`, pairing by pairing."""
    kept: list[Behind] = []
    for path in paths:
        if not any(other.covers(path, nothing) for other in kept):
            kept = [other for other in kept if not path.covers(other, nothing)] + [path]
    if len(kept) <= 1:
        return kept[0] if kept else nothing
    met_s = kept[0].table_s()
    for path in kept[1:]:
        np.maximum(met_s, path.table_s(), out=met_s)
    return Behind(met_s, nothing.tensor_s, nothing.vector_s)


def direct_successors(dag: Dag) -> list[list[int]]:
    """Of each operator, those after it that no other path leads to: the others are never on a longest path.

    Most operators of a forward pass have two after them, the next one and the one that takes its gradient; the path
    through the next one leads there too.
    """
    starts, targets = dag.edge_start.tolist(), dag.edge_to.tolist()
    reached = [0] * len(dag.order)  # a bit for each operator that lies behind
    after: list[list[int]] = [[] for _ in reached]
    for i in dag.order[::-1].tolist():
        successors = set(targets[starts[i] : starts[i + 1]])
        beyond = 0
        for target in successors:
            beyond |= reached[target]
        after[i] = sorted(target for target in successors if not beyond >> target & 1)
        reached[i] = beyond | sum(1 << target for target in successors)
    return after
