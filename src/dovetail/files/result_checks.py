"""Whether results that are read back agree with themselves: every bar with its figures, the verdict with every bar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dovetail.accuracy.bars import ROUNDING_FRAC, Bar
from dovetail.accuracy.choice_bars import Choice
from dovetail.accuracy.compared import Score
from dovetail.files.entry import Entry

Record = dict[str, Any]
_FIGURES = [field.name for field in fields(Score) if field.name != "worst"]
_OF_CHOICE = [field.name for field in fields(Choice)]


def check_agrees(record: Record, entry: Entry) -> None:
    """Raises where `record`, as `entry` holds it, says what its own figures do not."""
    if not record["sets"] and not record["profiles"]:
        raise entry.child("sets").refused("results hold at least one set or profile; got none")
    verdicts = list(_verdicts(record, entry))
    for where, claimed, is_held in verdicts:
        if claimed != is_held:
            message = "its figures keep the bar" if is_held else "its figures miss the bar"
            raise where.refused(f"holds is {_word(claimed)}, but {message}; write the results again with --json")
    if record["holds"] != all(claimed for _, claimed, _ in verdicts):
        missed = sum(not claimed for _, claimed, _ in verdicts)
        message = f"holds is {_word(record['holds'])}, but {missed} of its {len(verdicts)} bars are missed"
        raise entry.child("holds").refused(f"{message}; write the results again with --json")


def _verdicts(record: Record, entry: Entry) -> Iterator[tuple[Entry, bool, bool]]:
    """Where a bar stands, whether the record claims that it holds, and whether its figures say so."""
    for place, one in enumerate(record["sets"]):
        here = entry.child("sets").child(place)
        for number, score in enumerate(one["scores"]):
            own = Score(**{name: score[name] for name in _FIGURES}, worst=())
            for at, bar in enumerate(score["bars"]):
                promised = Bar(promise=one["set"], statistic=bar["statistic"], limit_frac=bar["limit_frac"])
                is_held = promised.holds(own) and bar["measured_frac"] <= promised.limit_frac + ROUNDING_FRAC
                yield here.child("scores").child(number).child("bars").child(at).child("holds"), bar["holds"], is_held
        for at, choice in enumerate(one["choices"]):
            is_held = Choice(**{name: choice[name] for name in _OF_CHOICE}).holds
            yield here.child("choices").child(at).child("holds"), choice["holds"], is_held
    for at, cover in enumerate(record["coverage"]):
        is_held = cover["least_frac"] <= cover["covered_frac"] <= cover["most_frac"]
        yield entry.child("coverage").child(at).child("holds"), cover["holds"], is_held


def _word(value: bool) -> str:
    return "true" if value else "false"
