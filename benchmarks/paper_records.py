"""WHAM's and PHAZE's reproductions, recorded: `python -m benchmarks.paper_records [wham] [phaze]`.

Each is what `dovetail reproduce PAPER --json` prints, in benchmarks/results; paper-times.json there has the CPU seconds
that it took in one process. Then `make bless` writes the pages.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import dovetail as dv
from benchmarks.bar import REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "results"
TIMES = RESULTS / "paper-times.json"
PAPERS = ("wham", "phaze")

Record = dict[str, Any]


def recorded(paper: str) -> Record:
    found: Record = json.loads((RESULTS / f"{paper}.json").read_text(encoding="utf-8"))
    return found


def times() -> Record:
    """CPU seconds of each record and the day it is of; none where nothing was recorded."""
    found: Record = json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}
    return found


def record(paper: str) -> float:
    """Writes the record of a paper, and says what it took."""
    began_s = time.process_time()
    found = dv.reproduce(paper)
    cpu_s = time.process_time() - began_s
    (RESULTS / f"{paper}.json").write_text(json.dumps(found.record, indent=2) + "\n", encoding="utf-8")
    own = {"cpu_s": round(cpu_s), "date": time.strftime("%Y-%m-%d")}
    TIMES.write_text(json.dumps(times() | {paper: own}, indent=2) + "\n", encoding="utf-8")
    return cpu_s


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper_records", description=__doc__)
    parser.add_argument("papers", nargs="*", choices=[[], *PAPERS], metavar="PAPER")
    for paper in parser.parse_args(arguments).papers or PAPERS:
        print(f"{paper}: {record(paper):.0f} CPU-s", flush=True)


if __name__ == "__main__":
    main()
