"""Fuzzing as it was last recorded by `make fuzz`: every input for ten minutes, without a finding."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.bar import Bar
from benchmarks.fuzz.__main__ import WHAT
from benchmarks.fuzz.child import LIMIT_BYTES
from benchmarks.fuzz.inputs import inputs
from benchmarks.stamp import newest_result
from dovetail.units import MEBI

ISSUE = 10
LEAST_S, LEAST_CASES = 600.0, 300
BAR = f"0 findings in {LEAST_S:g} s, below {LIMIT_BYTES / MEBI:,.0f} MiB"


def bars() -> Iterator[Bar]:
    """What the youngest record says of each input; nothing is fuzzed here."""
    file = newest_result(WHAT)
    known = {one["name"]: one for one in json.loads(file.read_text(encoding="utf-8"))} if file else {}
    for name in inputs.names():
        message = f"fuzzing {name}"
        if name not in known:
            yield Bar(name=message, issue=ISSUE, bar=BAR, measured="-", holds=None, note="not recorded: make fuzz")
            continue
        one = known[name]
        num_found, peak_bytes = len(one["findings"]), one["peak_bytes"]
        yield Bar(
            name=message,
            issue=ISSUE,
            bar=BAR,
            measured=f"{num_found} in {one['wall_s']:.0f} s, {one['cases']:,} cases, {peak_bytes / MEBI:,.0f} MiB",
            holds=not num_found
            and one["wall_s"] >= LEAST_S
            and one["cases"] >= LEAST_CASES
            and peak_bytes <= LIMIT_BYTES,
            note=f"{one['commit']}, {one['date']}, {one['machine']}",
        )
