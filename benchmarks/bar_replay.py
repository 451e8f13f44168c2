"""The net under a refactoring: goldens to the last bit, and commands answered as the base commit answers them.

`python -m benchmarks.replay --record` measures the second; here its youngest result is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.bar import REPOSITORY, Bar
from benchmarks.replay import WHAT
from benchmarks.stamp import newest_result

ISSUE = 21
LEAST_GOLDENS, LEAST_COMMANDS = 300, 120
MOST_WITHIN = 1e-12
GOLDENS = REPOSITORY / "tests" / "golden" / "exact"
MACHINE = "recorded on"  # in a file of goldens, beside its cases: where its bits are from


def bars() -> Iterator[Bar]:
    yield from golden_bars()
    file = newest_result(WHAT)
    yield from replay_bars(json.loads(file.read_text(encoding="utf-8")) if file else None)


def golden_bars(folder: Path = GOLDENS) -> Iterator[Bar]:
    files = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    num_cases = sum(name != MACHINE for file in files for name in file)
    yield Bar(
        name="goldens, floats to the last bit",
        issue=ISSUE,
        bar=f">= {LEAST_GOLDENS}",
        measured=f"{num_cases} in {len(files)} files",
        holds=num_cases >= LEAST_GOLDENS,
        note="whether they hold: pytest tests/golden",
    )


def replay_bars(result: dict[str, Any] | None) -> Iterator[Bar]:
    name, bar = "commands replayed by the base and by today's package", f">= {LEAST_COMMANDS}, all equal"
    if result is None:
        note = "not recorded: python -m benchmarks.replay --record"
        yield Bar(name=name, issue=ISSUE, bar=bar, measured="-", holds=None, note=note)
        return
    how = f"within {result['within']:g}" if result["within"] else "to the last bit"
    yield Bar(
        name=name,
        issue=ISSUE,
        bar=bar,
        measured=f"{result['num_equal']} of {result['num_commands']} {how}",
        holds=result["num_commands"] >= LEAST_COMMANDS
        and result["num_equal"] == result["num_commands"]
        and result["within"] <= MOST_WITHIN,
        note=f"{result['commit']} beside {result['base'][:7]}, {result['date']}, {result['machine']}",
    )
