"""Measure every bar and print which hold: `python -m benchmarks.bars [--json] [--strict] [name ...]`.

Each module `benchmarks/bar_<name>.py` offers `bars() -> Iterator[Bar]`. This runner only reads them: a bar is moved by
editing its module, in a commit that says why.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

import benchmarks
from benchmarks.bar import Bar

PREFIX = "bar_"
COLUMNS = ("issue", "name", "bar", "measured", "verdict")

BarSource = Callable[[], Iterable[Bar]]


def bar_sources() -> dict[str, BarSource]:
    """The `bars` function of every bar module, by the module's name without its prefix; imported only when called."""
    names = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if found.name.startswith(PREFIX))
    return {name.removeprefix(PREFIX): _source(f"{benchmarks.__name__}.{name}") for name in names}


def _source(module: str) -> BarSource:
    def bars() -> Iterator[Bar]:
        yield from importlib.import_module(module).bars()

    return bars


def measured_bars(sources: Mapping[str, BarSource]) -> Iterator[Bar]:
    """Every bar of every source, in order. A source that raises misses, its trace on stderr; the rest still run."""
    for name, source in sources.items():
        try:
            yield from source()
        except Exception as error:
            traceback.print_exc()
            note = f"raised {type(error).__name__}: {error}"
            yield Bar(name=name, issue=0, bar="measures without raising", measured="-", holds=False, note=note)


def verdict(bar: Bar) -> str:
    if bar.holds is None:
        return f"skipped ({bar.note})"
    word = "holds" if bar.holds else "misses"
    return f"{word} ({bar.note})" if bar.note else word


def table(bars: Sequence[Bar]) -> str:
    """The bars as aligned text, with a closing line that counts them."""
    rows = [COLUMNS]
    rows += [(f"#{bar.issue}" if bar.issue else "-", bar.name, bar.bar, bar.measured, verdict(bar)) for bar in bars]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "", summary(bars)])


def summary(bars: Iterable[Bar]) -> str:
    found = [bar.holds for bar in bars]
    return f"{len(found)} bars: {found.count(True)} hold, {found.count(False)} miss, {found.count(None)} skipped"


def main(arguments: Sequence[str] | None = None, sources: Mapping[str, BarSource] | None = None) -> int:
    sources = bar_sources() if sources is None else sources
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bars", description="measure every bar, print which hold"
    )
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"measure only these of: {', '.join(sources) or 'none'}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar misses")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in sources]:
        parser.error(f"no bars are named {', '.join(unknown)}; known: {', '.join(sources) or 'none'}")
    chosen = {name: source for name, source in sources.items() if not options.names or name in options.names}
    bars = list(measured_bars(chosen))
    print(json.dumps([asdict(bar) for bar in bars], indent=2) if options.json else table(bars))
    return 1 if options.strict and any(bar.holds is False for bar in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
