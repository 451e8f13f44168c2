"""Times one operation of whichever `dovetail` is on the path, and prints JSON: `timed_operation.py NAME [MODULE]`.

A script of its own, run by `benchmarks.against_base` with the base's package on the path and with today's. Operations
are those that `dovetail validate --all` times. MODULE has their list under the name that the base has for it; without
one, it is where today's package has it.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

ENOUGH_S, MOST_RUNS = 2.0, 20  # CPU seconds of runs, after which the least says enough
KIBI_BYTES = 1024  # Linux counts resident memory in these


def operations(module: str = "") -> Sequence[Any]:
    """What can be timed; the package is imported here and nowhere else."""
    if module:
        found: Sequence[Any] = importlib.import_module(module).OPERATIONS
        return found
    from dovetail.api.appraised import OPERATIONS

    return OPERATIONS


def measured(name: str, module: str = "") -> dict[str, float]:
    """CPU seconds of a warm run, the least of some; how many things it did; the peak memory of this process."""
    [operation] = (one for one in operations(module) if one.name == name)
    run = operation.made()
    cpu_s: list[float] = []
    num_done = 0.0
    while sum(cpu_s) < ENOUGH_S and len(cpu_s) < MOST_RUNS:
        began_s = time.process_time()
        num_done = run()
        cpu_s.append(time.process_time() - began_s)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBI_BYTES
    return {"cpu_s": min(cpu_s), "num_done": num_done, "peak_bytes": peak_bytes}


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
