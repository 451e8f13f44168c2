"""Golden files: numbers as small JSON, compared exactly, with a message that says which moved and by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NUM_DIGITS = 10  # far below any change of model, far above the last-bit noise between machines


def golden_text(value: Any) -> str:
    """`value` as the text of a golden file: sorted keys, floats to ten significant digits."""
    return json.dumps(_rounded(value), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{NUM_DIGITS}g}")
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def differences(expected: Any, actual: Any, where: str = "") -> list[str]:
    """One line per place where `actual` is not `expected`."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        keys = sorted(expected.keys() | actual.keys())
        return [line for key in keys for line in _at_key(expected, actual, key, f"{where}.{key}" if where else key)]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for index, (old, new) in pairs for line in differences(old, new, f"{where}[{index}]")]
    if type(expected) is type(actual) and expected == actual:
        return []
    moved = ""
    if _is_number(expected) and _is_number(actual) and expected:
        moved = f" ({(actual - expected) / abs(expected):+.3%})"
    return [f"{where or 'value'}: was {expected!r}, is {actual!r}{moved}"]


def _at_key(expected: dict[str, Any], actual: dict[str, Any], key: str, where: str) -> list[str]:
    if key not in actual:
        return [f"{where}: was {expected[key]!r}, is gone"]
    if key not in expected:
        return [f"{where}: is new, {actual[key]!r}"]
    return differences(expected[key], actual[key], where)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_golden(file: Path, value: Any, bless: bool) -> None:
    """Compare `value` with `file`, or write it there when blessing."""
    text = golden_text(value)
    if bless:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    assert file.exists(), f"no golden file {file.name}; run `make bless` and review what it wrote"
    moved = differences(json.loads(file.read_text(encoding="utf-8")), json.loads(text))
    assert not moved, "\n".join([f"{file.name} moved; if that is meant, run `make bless` and say why:", *moved])
