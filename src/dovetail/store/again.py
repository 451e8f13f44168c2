"""Why a search does not go on from a study of the same question: what has changed between the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.search.study import StudyRecord
from dovetail.store.shapes import SPACE
from dovetail.store.version import physics_changes

DERIVED = ("reference_losses", "loss_unit")  # of inputs: what the base comes to, so it moves with physics and chips
LIMITS = ("limits", "budget")  # those of the base, if none is given


def why_not_the_same(own: StudyRecord, other: StudyRecord) -> tuple[str, ...]:
    """In a few words each; none where they are studies of different questions.

    A question is the same if a person would ask it in the same words: models, batch, base chip by name, space, limits
    and metric. What these names stand for may have changed since, and then it says so.
    """
    if own.kind != other.kind:
        return ()
    reasons = list(physics_changes(other.model_version, own.kind))
    is_other_base = _digest(own.inputs.get("base")) != _digest(other.inputs.get("base"))
    if _words(own.inputs, is_other_base) != _words(other.inputs, is_other_base):
        return ()
    if is_other_base:
        reasons.append(f"chip {_name(own.inputs['base'])} has other figures")
    for mine, theirs in zip(own.jobs, other.jobs, strict=True):
        if _digest(mine) != _digest(theirs):
            reasons.append(f"model {_name(mine)} has another graph")
    if own.figure_names != other.figure_names:
        reasons.append("other figures are kept of a row")
    if not reasons and any(own.inputs.get(key) != other.inputs.get(key) for key in DERIVED):
        reasons.append("the base comes to another result")
    return tuple(reasons)


def _words(inputs: Mapping[str, Any], is_other_base: bool) -> dict[str, Any]:
    """A question without hashes; of two different bases, without what may be as the base has it."""
    words = {key: _without_digests(value) for key, value in inputs.items() if key not in (SPACE, *DERIVED)}
    knobs = list(inputs.get(SPACE, {}).items())
    if is_other_base:
        words = {key: value for key, value in words.items() if key not in LIMITS}
        knobs = [(name, values) for name, values in knobs if len(values) > 1]
    return words | {SPACE: knobs}


def _without_digests(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_digests(item) for key, item in value.items() if key != "digest"}
    return [_without_digests(item) for item in value] if isinstance(value, list) else value


def _digest(fact: Any) -> Any:
    return fact.get("digest") if isinstance(fact, dict) else fact


def _name(fact: Any) -> str:
    return str(fact.get("name", "")) if isinstance(fact, dict) else str(fact)
