"""YAML and JSON changed as trees, by keys, values and whole branches: well written, and it says odd things."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import yaml

from benchmarks.fuzz.odd import MARKS, NAMES, near_number, odd_value, odd_word

Place = tuple[Any, Any]  # a mapping or list, and a key or index of it
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
KINDS = ("set", "near", "drop", "rename", "double", "swap", "graft", "wrap", "unwrap", "repeat", "add", "word")
AMOUNT = re.compile(r"[0-9][0-9.,]*( *[A-Za-z].*)")
AMOUNTS = ("0", "1", "0.001", "3", "1000", "1e6", "1e9", "1e15", "1e-9", "1e30", "1e-30", "1e300")
WHOLES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 1024, 10**5, 10**6, 10**9, 10**12, 2**31, 2**62, -1)
REALS = (0.0, 0.5, 1.0, 1.5, -1.0, 1e-9, 1e-300, 1e9, 1e15, 1e30, 1e300)
CHANCES = (6, 4, 3, 2, 2, 2, 3, 1, 1, 1, 2, 1)


def parsed(data: bytes, *, is_json: bool) -> Any:
    """What a valid file holds; a copy of one's own to change."""
    return copy.deepcopy(_parsed(data, is_json))


@lru_cache(maxsize=512)
def _parsed(data: bytes, is_json: bool) -> Any:
    return json.loads(data) if is_json else yaml.load(data, Loader=Loader)  # safe loaders both


def written(tree: Any, *, is_json: bool) -> bytes:
    """`tree` as a file has it, with what no tree can hold in place of its marks; JSON is YAML too."""
    if is_json:
        text = json.dumps(tree, ensure_ascii=False)
    else:
        text = yaml.dump(tree, Dumper=Dumper, allow_unicode=True, sort_keys=False)
    for mark, instead in MARKS.items():
        text = text.replace(f'"{mark}"', instead).replace(f"'{mark}'", instead)
    return text.encode("utf-8", "surrogatepass")


def changed_tree(tree: Any, others: Sequence[Any], rng: Random) -> Any:
    """`tree` after one change, in place where it can be."""
    found = list(places(tree))
    if not found:
        return odd_value(rng)
    inside, key = rng.choice(found)
    [kind] = rng.choices(KINDS, CHANCES)
    if kind == "set":
        inside[key] = odd_value(rng)
    elif kind == "near":
        inside[key] = _near(inside[key], rng)
    elif kind == "drop":
        del inside[key]
    elif kind in ("rename", "double", "add"):
        _key_changed(inside, key, kind, found, rng)
    elif kind == "swap":
        there, other = rng.choice(found)
        inside[key], there[other] = copy.deepcopy(there[other]), copy.deepcopy(inside[key])
    elif kind == "graft":
        source = list(places(rng.choice(others))) if others and rng.random() < 0.5 else found
        if source:
            there, other = rng.choice(source)
            inside[key] = copy.deepcopy(there[other])
    elif kind == "wrap":
        inside[key] = rng.choice(([inside[key]], {"value": inside[key]}, {"base": inside[key]}, {"name": inside[key]}))
    elif kind == "unwrap":
        inside[key] = _unwrapped(inside[key], rng)
    elif kind == "repeat":
        inside[key] = [copy.deepcopy(inside[key]) for _ in range(rng.choice((2, 5, 200)))]
    else:
        inside[key] = odd_word(rng)
    return tree


def turned_tree(tree: Any, others: Sequence[Any], rng: Random) -> Any:
    """`tree` after one change that no check of types notices: of a number, a quantity, a word, a switch or a list."""
    found = list(places(tree))
    if not found:
        return tree
    inside, key = rng.choice(found)
    value = inside[key]
    if isinstance(value, bool):
        inside[key] = not value
    elif isinstance(value, int):
        inside[key] = rng.choice((*WHOLES, value + 1, value - 1, value * 2, value // 2, value * 1000))
    elif isinstance(value, float):
        inside[key] = rng.choice((*REALS, value * 2, value / 1000, -value, float(round(value))))
    elif isinstance(value, str):
        inside[key] = _other_word(value, key, [*found, *(place for other in others for place in places(other))], rng)
    elif isinstance(value, list) and value:
        at, to = rng.randrange(len(value)), rng.randrange(len(value))
        inside[key] = rng.choice(
            (value[:at] + value[at + 1 :], [*value[:to], value[at], *value[to:]], value[::-1], value * 2, value[:1])
        )
    return tree


def _other_word(value: str, key: Any, found: Sequence[Place], rng: Random) -> str:
    """A quantity of another number, or what stands under the same key elsewhere."""
    if amount := AMOUNT.fullmatch(value):
        return f"{rng.choice(AMOUNTS)}{amount[1]}"
    alike: list[str] = [there[other] for there, other in found if other == key and isinstance(there[other], str)]
    return rng.choice([*alike, rng.choice(NAMES)])


def places(tree: Any) -> Iterator[Place]:
    """Every mapping or list in `tree` with every key or index of it."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield tree, key
            yield from places(value)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield tree, index
            yield from places(value)


def _near(value: Any, rng: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return near_number(value, rng)
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        cut, longer = value[:at], value[:at] + "9" + value[at:]
        return rng.choice(
            (cut, cut + value[at + 1 :], longer, value.upper(), f" {value} ", value + "x", f"-{value}", f"1e9{value}",
             value.replace("G", "T"), value.replace(" ", ""))
        )  # fmt: skip
    if isinstance(value, list):
        return rng.choice((value[::-1], value[:1], value + value, value * 40, [], sorted(value, key=str), [value]))
    return odd_value(rng)


def _key_changed(inside: Any, key: Any, kind: str, found: Sequence[Place], rng: Random) -> None:
    """A mapping with a key by another name or beside it, from anywhere in the tree; a list with one more item."""
    if isinstance(inside, list):
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
        return
    known = [other for there, other in found if isinstance(there, dict)]
    name = rng.choice((rng.choice(known), f"{key}x", str(key)[:-1], odd_word(rng), str(key).upper()))
    if kind == "add":
        inside[name] = odd_value(rng)
    elif kind == "rename":
        inside[name] = inside.pop(key)
    else:
        inside[name] = copy.deepcopy(inside[key])


def _unwrapped(value: Any, rng: Random) -> Any:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return rng.choice(inner) if inner else odd_value(rng)
