"""What a planner may choose from, as people write it: choices fixed to one value or several, features forbidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.entry import Entry, described, placed
from dovetail.files.inline_plan import ALIASES, ELSEWHERE, OPTIONS, SHORT_NAMES
from dovetail.files.plan import OLD_NAMES
from dovetail.files.schema import MAX_LIST, MAX_WHOLE
from dovetail.files.text import quoted
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, recompute_policies
from dovetail.search.planners.constraints import EVEN, FEATURES, KEYS, OVERLAP, STAGES, Constraint, without
from dovetail.step.pipelines import pipelines

ZERO_STAGES = (0, 1, 2, 3)
MAX_SHOWN = 8  # of a list that is refused
_ORDER_RULE = f"axis_order must hold each of {', '.join(AXES)} once, as in {'-'.join(AXES)}"
_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")  # Python refuses to read longer ones
_SHORT = {short: long for short, long in (ALIASES | OLD_NAMES).items() if long in KEYS}
_NOT_IN_SPACE = {
    "fix": "keys of space are choices themselves, as in tp: [4, 8]; write the choice without fix",
    "forbid": "space lists the values to choose from, as in zero_stage: [0, 1]; pass --forbid to exclude some",
}
_SHARES = ("offload_activations_frac",)
_SHARE = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_FLAGS = ("sequence_parallel", "offload_optimizer", *(key for key in KEYS if key.startswith(OVERLAP)))


def space_of(entry: Entry) -> tuple[Constraint, ...]:
    """The constraints of a spec's `space` section: every key fixes one choice."""
    if not isinstance(entry.value, dict):
        raise entry.refused(f"space must be a mapping of keys to values; got {described(entry.value)}")
    found: dict[str, Constraint] = {}
    for name, place in _leaves(entry):
        with placed(place):
            if name in ("fix", "forbid"):
                raise InvalidInput(_NOT_IN_SPACE[name])
            key = _key(name, "no key of space")
            if key in found:
                raise InvalidInput(f"{key} is given twice; remove {name}")
            found[key] = Constraint(key=key, values=_values(key, place.node.plain()), where=place.where)
    return tuple(found.values())


def _leaves(entry: Entry) -> Iterator[tuple[str, Entry]]:
    """Keys with their places; those of `overlap` under their dotted names."""
    for name in entry.value:
        place = entry.child(name)
        if name == "overlap" and isinstance(place.value, dict):
            yield from ((f"{OVERLAP}{inner}", place.child(inner)) for inner in place.value)
        else:
            yield name, place


def fixed_by(words: str) -> Constraint:
    """The constraint that `--fix` is given: KEY=VALUE, or several values set apart by commas."""
    with _errors_at("--fix", words):
        name, mark, values = words.partition("=")
        if not mark or not values:
            raise InvalidInput("a choice is fixed by KEY=VALUE, as in tp=8 or zero_stage=1,2")
        key = _key(name.strip(), "no choice of a plan")
        return Constraint(key=key, values=_values(key, _spoken(key, values)), where=f"--fix {_brief(words)}")


def decided_choice(option: str, words: str | bool) -> Constraint:
    """The constraint that an option such as --tp 8 is for a search: the same as --fix tp=8."""
    text = str(words).lower() if isinstance(words, bool) else words
    with _errors_at(f"--{option}", text):
        key = OPTIONS[option]
        return Constraint(key=key, values=_values(key, _spoken(key, text)), where=f"--{option} {_brief(text)}")


def forbidden_by(words: str) -> tuple[Constraint, ...]:
    """The constraints that `--forbid` is given: features or KEY=VALUE, set apart by commas."""
    with _errors_at("--forbid", words):
        return tuple(_forbidden(part) for part in _parts(words))


def _parts(words: str) -> list[str]:
    """Features and KEY=VALUE,VALUE: what follows a key and is no feature is one more of its values."""
    parts: list[str] = []
    for word in (word.strip() for word in words.split(",")):
        if parts and "=" in parts[-1] and "=" not in word and word not in FEATURES:
            parts[-1] += f",{word}"
        else:
            parts.append(word)
    return parts


def _forbidden(part: str) -> Constraint:
    name, mark, value = part.partition("=")
    where = f"--forbid {_brief(part)}"
    if not mark:
        if name not in FEATURES:
            known = did_you_mean(name[:100], FEATURES)
            raise InvalidInput(f"no feature is named {quoted(name)}{known}, or KEY=VALUE,VALUE for values")
        return without(name, where)
    if not value:
        raise InvalidInput("a value is forbidden by KEY=VALUE, as in tp=1 or zero_stage=2,3")
    key = _key(name.strip(), "no choice of a plan")
    return Constraint(key=key, values=_values(key, _spoken(key, value)), where=where, forbids=True)


@contextmanager
def _errors_at(option: str, words: str) -> Iterator[None]:
    """Places errors at the option that was given."""
    try:
        yield
    except DovetailError as error:
        raise type(error)(error.message, f"{option} {_brief(words)}") from None


def _brief(words: str) -> str:
    return quoted(words)[1:-1]


def _key(name: str, noun: str) -> str:
    word = name.removeprefix("--").replace("-", "_").casefold()
    key = name if name in KEYS else _SHORT.get(word, word)
    if key not in KEYS and word in ELSEWHERE:
        raise InvalidInput(f"{quoted(name)} is no decision of a plan; use {ELSEWHERE[word]}")
    if key not in KEYS:
        raise InvalidInput(f"{noun} is named {quoted(name)}{did_you_mean(name[:100], (*KEYS, *SHORT_NAMES))}")
    return key


def _spoken(key: str, text: str) -> list[Any]:
    """Words of the command line as a file would have them."""
    words = [word.strip() for word in text.split(",")]
    if key in _FLAGS:
        return [{"true": True, "false": False}.get(word, word) for word in words]
    if key in _SHARES:
        return [float(word) if _SHARE.fullmatch(word) else word for word in words]
    return [int(word) if _WHOLE.fullmatch(word) else word for word in words]


def _values(key: str, written: Any) -> tuple[Any, ...]:
    """One value, or a list of them, each checked; an axis order is itself a list."""
    is_order = key == "axis_order" and isinstance(written, list) and any(item in AXES for item in written)
    if is_order and len(written) != len(AXES):
        raise InvalidInput(f"{_ORDER_RULE}; got {', '.join(map(str, written[:MAX_SHOWN]))}")
    items = written if isinstance(written, list) and not is_order else [written]
    if not items:
        raise InvalidInput(f"{key} must not be empty; give it a value, or leave it out")
    if len(items) > MAX_LIST:
        raise InvalidInput(f"{key} must have at most {MAX_LIST:,} values; got {len(items):,}")
    return tuple(dict.fromkeys(_value(key, item) for item in items))


def _value(key: str, item: Any) -> Any:
    if key in _FLAGS:
        if not isinstance(item, bool):
            raise InvalidInput(f"{key} must be true or false; got {described(item)}")
        return item
    if key in _SHARES:
        return _share(key, item)
    if key == "axis_order":
        return _order(item)
    if key == STAGES:
        if item != EVEN:
            raise InvalidInput(f"stages must be even, or be left out for uneven ones too; got {described(item)}")
        return item
    if key in ("recompute", "schedule", "context_comm_type"):
        named = {"recompute": RECOMPUTE_POLICIES, "context_comm_type": CONTEXT_COMM_TYPES}
        known = named.get(key) or pipelines.names()
        if key == "recompute" and isinstance(item, str):
            [item] = recompute_policies((item,))
        if item not in known:
            shown = str(item)[:100]
            raise InvalidInput(f"{key} must be one of {', '.join(known)}; got {described(item)}{_close(shown, known)}")
        return item
    return _count(key, item)


def _close(name: str, known: tuple[str, ...]) -> str:
    hint = did_you_mean(name, known)
    return hint if "did you mean" in hint else ""  # all of them are listed already


def _count(key: str, item: Any) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        raise InvalidInput(f"{key} must be a whole number; got {described(item)}")
    if key == "zero_stage" and item not in ZERO_STAGES:
        raise InvalidInput(f"zero_stage must be 0, 1, 2 or 3; got {described(item)}")
    if key != "zero_stage" and not 1 <= item <= MAX_WHOLE:
        bound = "at least 1" if item < 1 else f"at most {MAX_WHOLE:,}"
        raise InvalidInput(f"{key} must be {bound}; got {described(item)}")
    return item


def _share(key: str, item: Any) -> float:
    if isinstance(item, bool) or not isinstance(item, int | float) or not 0 <= item <= 1:
        raise InvalidInput(f"{key} must be a number from 0 to 1; got {described(item)}")
    return float(item)


def _order(item: Any) -> tuple[str, ...]:
    axes = tuple(item.split("-")) if isinstance(item, str) else tuple(item) if isinstance(item, list) else ()
    if not all(isinstance(axis, str) for axis in axes) or sorted(axes) != sorted(AXES):
        raise InvalidInput(f"{_ORDER_RULE}; got {described(item)}")
    return axes
