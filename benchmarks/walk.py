"""How far one `simulate` walks through the code: modules of Dovetail in which a function ran, and depth of calls.

    python -m benchmarks.walk [FILE]

Counts what runs when the answer is made, not what is imported: a module counts if one of its functions was called, and
the depth is the most calls of Dovetail's own functions that were open at once, whatever ran between them.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import dovetail
import dovetail.api as dv

ROOT = Path(dovetail.__file__).parent
EXAMPLE = Path(__file__).parents[1] / "examples" / "llama3-70b-512xh100.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """Calls by module, and the calls that were open at the deepest point, outermost first."""

    calls: Counter[str]
    deepest: tuple[str, ...]


def walk(spec: Path) -> Walk:
    """The walk of one simulation of `spec`."""
    prefix = f"{ROOT}/"
    calls: Counter[str] = Counter()
    open_calls: list[str] = []
    deepest: list[str] = []
    imports: list[FrameType] = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(prefix):
            return
        if code.co_name == "<module>":  # what runs while a module is imported is no part of the answer
            imports.append(frame) if event == "call" else imports.pop()
        if imports or code.co_name == "<module>":
            return
        if event == "return":
            open_calls.pop()
            return
        module = code.co_filename.removeprefix(prefix)
        calls[module] += 1
        open_calls.append(f"{module} {code.co_qualname}")
        if len(open_calls) > len(deepest):
            deepest[:] = open_calls

    sys.setprofile(seen)
    try:
        dv.simulate(str(spec))
    finally:
        sys.setprofile(None)
    return Walk(calls=calls, deepest=tuple(deepest))


def main() -> None:
    spec = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE
    found = walk(spec)
    for module, count in sorted(found.calls.items()):
        print(f"{count:8,}  {module}")
    print("\ndeepest:")
    for depth, name in enumerate(found.deepest, start=1):
        print(f"{depth:4}  {name}")
    print(f"\n{spec.name}: {len(found.calls)} modules, {len(found.deepest)} calls deep, {found.calls.total():,} calls")


if __name__ == "__main__":
    main()
