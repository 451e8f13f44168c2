"""Where a region of divided products begins and ends: a gather before, a reduce behind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import Limit
from dovetail.workload.recorded.drafted import COLS, INNER, ROWS, Draft, Drafting
from dovetail.workload.recorded.sizes import ONE, Size


@dataclass(slots=True)
class Regions:
    """What was found: drafts inside a region, and what limits the degrees."""

    inside: set[int] = field(default_factory=set)
    limits: list[Limit] = field(default_factory=list)

    def limit(self, axis: Axis, label: str, size: Size) -> None:
        found = Limit(axis=int(axis), label=label, size=size)
        if found not in self.limits:
            self.limits.append(found)


class Links:
    """Who makes and who reads each value among drafts."""

    def __init__(self, drafts: list[Draft]) -> None:
        self.maker = {draft.makes: draft for draft in drafts}
        self.readers: dict[int, list[Draft]] = defaultdict(list)
        for draft in drafts:
            for value in dict.fromkeys(draft.reads):
                self.readers[value].append(draft)


def open_region(drafting: Drafting, first: list[Draft]) -> None:
    """A gather before the first products, one for each tensor they read."""
    for value in dict.fromkeys(value for draft in first for value in draft.reads):
        readers = [draft for draft in first if value in draft.reads]
        gathered = next(
            (
                draft
                for draft in drafting.drafts
                if draft.operator == "gather"
                and draft.reads == [value]
                and _layer_of(draft.where) == _layer_of(readers[0].where)
            ),
            None,
        )
        if gathered is None:
            model = readers[0]
            gathered = Draft(
                kind="exchange",
                name="gather",
                operator="gather",
                where=model.where,
                reads=[value],
                makes=drafting.new_value(),
                sizes=[ONE, model.sizes[ROWS], model.sizes[INNER], ONE, ONE],
            )
            place = min(index for index, draft in enumerate(drafting.drafts) if draft in readers)
            drafting.drafts.insert(place, gathered)
        for draft in readers:
            draft.reads = [gathered.makes if read == value else read for read in draft.reads]


def _layer_of(where: str) -> tuple[str, ...]:
    """The path up to its first number: regions of one layer may share what they gather, those of others do not."""
    words = where.replace("/", ".").split(".")
    numbers = [index for index, word in enumerate(words) if word.isdigit()]
    return tuple(words[: numbers[0] + 1]) if numbers else ()


def close_region(drafting: Drafting, last: Draft) -> None:
    """A reduce after the last product; where two such results are only added, one after their sum."""
    readers = [draft for draft in drafting.drafts if last.makes in draft.reads]
    if len(readers) == 1 and readers[0].operator == "reduce" and readers[0].kind == "exchange":
        return
    summed = readers[0] if len(readers) == 1 and readers[0].operator == "add" else None
    if summed is not None and len(summed.reads) == 2:  # two branches
        other = next(value for value in summed.reads if value != last.makes)
        waiting = next((d for d in drafting.drafts if d.operator == "reduce" and d.makes == other), None)
        if waiting is not None and waiting.kind == "exchange":
            drafting.drafts.remove(waiting)
            summed.reads = [waiting.reads[0] if value == other else value for value in summed.reads]
            summed.is_inside = True
            _insert_reduce(drafting, summed, last)
            return
    _insert_reduce(drafting, last, last)


def _insert_reduce(drafting: Drafting, after: Draft, shape: Draft) -> None:
    made = drafting.new_value()
    for draft in drafting.drafts:
        draft.reads = [made if value == after.makes else value for value in draft.reads]
    reduce = Draft(
        kind="exchange",
        name="reduce",
        operator="reduce",
        where=shape.where,
        reads=[after.makes],
        makes=made,
        sizes=[ONE, shape.sizes[ROWS], shape.sizes[COLS], ONE, ONE],
        is_early=after.is_early,
    )
    drafting.drafts.insert(drafting.drafts.index(after) + 1, reduce)
