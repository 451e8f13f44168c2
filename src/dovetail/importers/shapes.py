"""Example inputs in words: `input_ids:int64[2,512], labels:int64[2,512]`, or without names in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import quoted

DTYPES = {
    "float32": "float32", "fp32": "float32", "float": "float32",
    "bfloat16": "bfloat16", "bf16": "bfloat16",
    "float16": "float16", "fp16": "float16", "half": "float16",
    "int64": "int64", "int": "int64", "long": "int64", "int32": "int32", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
MAX_SIDE = 2**31 - 1  # style: what a 32-bit index reaches
MAX_SIDES = 8
MAX_INPUTS = 64
_ONE = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)\s*:)?\s*(?P<dtype>\w+)\s*\[(?P<sides>[\d,\s]*)\]\s*")
_WAY = "write them as in 'input_ids:int64[2,512], labels:int64[2,512]', or without names: 'float32[8,3,224,224]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """One input: its name (empty where it goes by its place), its dtype as PyTorch calls it, and its sides."""

    name: str
    dtype: str
    sides: tuple[int, ...]


def input_shapes(text: str) -> tuple[InputShape, ...]:
    """The inputs that `text` names; all by name, or all by place."""
    found: list[InputShape] = []
    place = 0
    while place < len(text):
        if found:
            if text[place] not in ",;":
                raise InvalidInput(f"cannot read {quoted(text[place:])}; {_WAY}", "--inputs")
            place += 1
        match = _ONE.match(text, place)
        if match is None:
            raise InvalidInput(f"cannot read {quoted(text[place:])}; {_WAY}", "--inputs")
        found.append(_shape(match))
        place = match.end()
    if not 1 <= len(found) <= MAX_INPUTS:
        raise InvalidInput(f"a model has 1 to {MAX_INPUTS} inputs; got {len(found)}; {_WAY}", "--inputs")
    names = [one.name for one in found if one.name]
    if len(names) not in (0, len(found)):
        raise InvalidInput("either every input has a name or none has, and they go by their place", "--inputs")
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InvalidInput(f"input {quoted(twice)} is given twice; keep one", "--inputs")
    return tuple(found)


def _shape(match: re.Match[str]) -> InputShape:
    dtype, sides = match["dtype"], [side.strip() for side in match["sides"].split(",")]
    if dtype not in DTYPES:
        raise InvalidInput(f"no dtype is named {quoted(dtype)}{did_you_mean(dtype[:100], DTYPES)}", "--inputs")
    if sides == [""]:
        sides = []  # a single number
    if not all(side and len(side) <= len(str(MAX_SIDE)) and 1 <= int(side) <= MAX_SIDE for side in sides):
        raise InvalidInput(f"a side is a number from 1 to {MAX_SIDE:,}; got [{quoted(match['sides'])}]", "--inputs")
    if len(sides) > MAX_SIDES:
        raise InvalidInput(f"an input has at most {MAX_SIDES} sides; got {len(sides)}", "--inputs")
    return InputShape(name=match["name"] or "", dtype=DTYPES[dtype], sides=tuple(int(side) for side in sides))
