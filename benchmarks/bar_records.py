"""Bars as they were last measured: `python -m benchmarks.bar_records NAME ...` measures these and keeps them.

Names are those of `python -m benchmarks.bars`. What was recorded of others is kept; pages state speeds and gains of
long runs out of the youngest record (tests/test_figures.py), and `make bless` writes what moved into them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.bar import Bar
from benchmarks.bars import bar_sources, measured_bars
from benchmarks.stamp import newest_result, result_file, stamp

WHAT = "bars"
Records = dict[str, dict[str, Any]]


def records() -> Records:
    """The youngest record: by source its commit, date and machine, and its bars."""
    file = newest_result(WHAT)
    found: Records = json.loads(file.read_text(encoding="utf-8")) if file else {}
    return found


def measured() -> dict[str, str]:
    """What was measured, in the words of the bar, by its name."""
    return {bar["name"]: bar["measured"] for one in records().values() for bar in one["bars"]}


def notes() -> dict[str, str]:
    """What a bar says beside it, by its name."""
    return {bar["name"]: bar["note"] for one in records().values() for bar in one["bars"]}


def with_bars(known: Records, name: str, bars: Sequence[Bar], stamped: dict[str, str]) -> Records:
    """`known` with the bars of one source in place of what was known of it, sources in the order of their names."""
    return dict(sorted((known | {name: {**stamped, "bars": [asdict(bar) for bar in bars]}}).items()))


def main(arguments: Sequence[str] | None = None) -> None:
    sources = bar_sources()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bar_records", description="measure bars and keep them")
    parser.add_argument("names", nargs="+", metavar="name", choices=list(sources), help=", ".join(sources))
    for name in parser.parse_args(arguments).names:
        bars = list(measured_bars({name: sources[name]}))
        known = with_bars(records(), name, bars, stamp())
        result_file(WHAT).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {len(bars)} bars recorded")


if __name__ == "__main__":
    main()
