"""Two JSON answers compared leaf by leaf: numbers exactly or within a tolerance, keys through a table of renames.

A leaf is named by its path, keys and list positions joined by dots: `memory.stages.0.total_bytes`. Goldens and the
replay of commands both compare this way, so a key that is renamed is said once, in a file of renames.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

Leaf = bool | int | float | str | None
Leaves = dict[str, Leaf]

_HEX = re.compile(r"-?0x[01]\.?[0-9a-f]*p[+-]\d+")
# What rounding may leave where two nearly equal figures are subtracted: a femtosecond, far below a byte or a FLOP.
ABSOLUTE = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """What is called otherwise since the base, old name to new.

    `keys` renames JSON keys: a key alone (`blocking_s`) wherever it stands, or with what stands before it
    (`time.host_s`, `simulate.time.host_s`: a path begins with its command). `options` renames words of commands,
    and `values` strings that are names, such as a framework's: wherever they stand, or of one key (`key=name`). Paths
    that match a pattern of `ignored` are left out.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    def path(self, old: str) -> str:
        """The path that `old` has now. Longer rules go before shorter ones, and no key is renamed twice."""
        names = old.split(".")
        rules = [rule for rule in self.keys if rule.partition(".")[0] in names]  # few of hundreds, for most paths none
        if not rules:
            return old
        parts: list[tuple[str, bool]] = [(part, False) for part in names]
        for rule in sorted(rules, key=lambda one: -one.count(".")):
            parts = _renamed(parts, rule.split("."), self.keys[rule].split("."))
        return ".".join(part for part, _ in parts)

    def leaves(self, old: Mapping[str, Leaf]) -> Leaves:
        """Leaves of the base by the names of now."""
        return {self.path(path): self._value(path, value) for path, value in old.items()}

    def words(self, old: Sequence[str]) -> list[str]:
        """A command of the base in the words of now; `--option=value` is renamed before its sign."""
        renamed = []
        for word in old:
            name, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
            renamed.append(f"{self.options.get(name, name)}{sign}{value}")
        return [word for word in renamed if word]

    def is_ignored(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.ignored)

    def _value(self, path: str, value: Leaf) -> Leaf:
        if not isinstance(value, str):
            return value
        return self.values.get(f"{path.rpartition('.')[2]}={value}", self.values.get(value, value))


def _renamed(parts: list[tuple[str, bool]], old: list[str], new: list[str]) -> list[tuple[str, bool]]:
    """`parts` (a name, and whether it is renamed already) with `new` for every run of `old`.

    Positions of lists may stand between the keys of a run; they stay where they are, so that a rule over a list needs
    as many new keys as old ones.
    """
    done: list[tuple[str, bool]] = []
    place = 0
    while place < len(parts):
        taken = _run_at(parts, place, old)
        if not taken:
            done.append(parts[place])
            place += 1
            continue
        names = iter(new)
        kept = parts[place : place + taken]
        if len(new) == len(old):
            done += [one if one[0].isdigit() and one[0] not in old else (next(names), True) for one in kept]
        else:
            assert taken == len(old), f"{'.'.join(old)} has a list inside; its new name needs as many keys"
            done += [(name, True) for name in new]
        place += taken
    return done


def _run_at(parts: list[tuple[str, bool]], place: int, old: list[str]) -> int:
    """How many of `parts` from `place` on the keys `old` take up; 0 where they do not stand there."""
    at = place
    for index, key in enumerate(old):
        while index and at < len(parts) and parts[at][0].isdigit() and parts[at][0] != key:
            at += 1
        if at >= len(parts) or parts[at] != (key, False):
            return 0
        at += 1
    return at - place


def load_renames(file: Path) -> Renames:
    """The renames of a JSON file with some of the keys `keys`, `options`, `values` and `ignored`."""
    said = json.loads(file.read_text(encoding="utf-8"))
    unknown = set(said) - {"keys", "options", "values", "ignored"}
    if unknown:
        raise ValueError(f"{file.name} has keys, options, values and ignored; got {', '.join(sorted(unknown))}")
    return Renames(**said)


def flattened(value: Any, where: str = "") -> Leaves:
    """Every leaf of JSON data by its path. What is empty is a leaf too: a list that lost its last row differs."""
    if isinstance(value, dict) and value:
        items = [(str(key).replace(".", "_"), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and value:
        items = [(str(place), item) for place, item in enumerate(value)]
    elif isinstance(value, dict | list | tuple):
        return {where: "{}" if isinstance(value, dict) else "[]"}
    else:
        return {where: value}
    leaves: Leaves = {}
    for key, item in items:
        leaves |= flattened(item, f"{where}.{key}" if where else key)
    return leaves


def is_sentence(value: Leaf) -> bool:
    """Whether a string is prose, which may be worded again, and no name, plan or sign."""
    return isinstance(value, str) and any(mark.isspace() for mark in value.strip())


def hexed(value: Leaf) -> Leaf:
    """A float as `float.hex` writes it, to the last bit; anything else as it is."""
    return value.hex() if isinstance(value, float) else value


def unhexed(value: Leaf) -> Leaf:
    return float.fromhex(value) if isinstance(value, str) and _HEX.fullmatch(value) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One leaf that is not what it was; a side that lacks it says so."""

    path: str
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.path}: was {self.was}, is {self.now}"


def differences(
    old: Mapping[str, Leaf], new: Mapping[str, Leaf], *, within: float = 0.0, renames: Renames | None = None
) -> list[Difference]:
    """Where `new` is not `old`, in the order of `old`; `within` is a relative tolerance, 0 for equal to the last bit.

    Counts, names and truths must be equal whatever the tolerance is.
    """
    renames = renames or Renames()
    was, found = renames.leaves(old), []
    for path in [*was, *(path for path in new if path not in was)]:
        if renames.is_ignored(path):
            continue
        if path not in new:
            found.append(Difference(path=path, was=_told(was[path]), now="gone"))
        elif path not in was:
            found.append(Difference(path=path, was="not there", now=_told(new[path])))
        elif not _is_equal(path, was[path], new[path], within):
            moved = _moved(was[path], new[path])
            found.append(Difference(path=path, was=_told(was[path]), now=f"{_told(new[path])}{moved}"))
    return found


def _is_equal(path: str, was: Leaf, now: Leaf, within: float) -> bool:
    if type(was) is type(now) and hexed(was) == hexed(now):
        return True
    if not (within and _is_number(was) and _is_number(now)) or (isinstance(was, int) and isinstance(now, int)):
        return False
    assert isinstance(was, int | float)
    assert isinstance(now, int | float)
    # A share is a difference or a quotient of figures that may each be off by the tolerance, so it may be off by that.
    scale = max(abs(was), abs(now), 1.0 if path.endswith("_frac") else 0.0)
    return abs(was - now) <= max(within * scale, ABSOLUTE)


def _is_number(value: Leaf) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _told(value: Leaf) -> str:
    return repr(value)


def _moved(was: Leaf, now: Leaf) -> str:
    if not (_is_number(was) and _is_number(now) and was):
        return ""
    assert isinstance(was, int | float)
    assert isinstance(now, int | float)
    return f" ({(now - was) / abs(was):+.3g})"
