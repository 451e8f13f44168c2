"""Write src/dovetail/accuracy/data/gaps.csv again: `python -m benchmarks.gaps`.

Gaps of searches that take too long to repeat, out of the results that benchmarks keep; `dovetail validate --all` shows
them beside those that it proves itself.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from benchmarks import convergence_table, phaze_records, schedule_records
from benchmarks.bar import REPOSITORY
from dovetail.accuracy.appraisal import GAP_COLUMNS, Gap, gap_over
from dovetail.files.measurements import shipped_folder

RESULTS = "benchmarks/results"
HEAD = """\
# Written by `python -m benchmarks.gaps`; do not edit. How far from the best possible answers of long searches may be.
# num answers, num_best of them the best; mean and worst gap as shares; source: the results they are out of.
"""
SEARCHES = {"bayes": "Bayesian search", "random": "random search"}


def recorded_gaps() -> tuple[Gap, ...]:
    return (*schedule_gaps(), *joint_gaps(), *wham_gaps(), *convergence_gaps())


def schedule_gaps() -> Iterator[Gap]:
    """Of exact schedules: blocks that a second leaves open, and random graphs of operators."""
    source, known = f"{RESULTS}/schedules.json", schedule_records.records()
    random = [one.gap_frac for name, one in known.items() if name.startswith(schedule_records.RANDOM)]
    blocks = [one.gap_frac for name, one in known.items() if not name.startswith(schedule_records.RANDOM)]
    yield gap_over("schedules of the hardest catalogue blocks", blocks, source)
    yield gap_over("schedules of random operator graphs", random, source)


def joint_gaps() -> Iterator[Gap]:
    """Of chip and plan together, by the terms that steps are counted in."""
    known = phaze_records.records()
    for terms in ("published", "calibrated"):
        gaps = [row["gap_frac"] for row in known.values() if row["terms"] == terms]
        what = f"PHAZE's models and chips, {terms} terms"
        yield gap_over(what, gaps, f"{RESULTS}/phaze-joint.json")


def wham_gaps() -> Iterator[Gap]:
    """Of the heuristic to the best of every design; that itself is proven for every model."""
    source = f"{RESULTS}/wham.json"
    models: list[dict[str, Any]] = json.loads((REPOSITORY / source).read_text(encoding="utf-8"))["models"]
    assert all(model["best"]["is_proven"] for model in models), source
    yield gap_over("WHAM's models and chips, by bounds", [0.0 for _ in models], source)
    heuristic = [model["critical_path"]["gap_frac"] for model in models]
    yield gap_over("the same by WHAM's heuristic", heuristic, source)


def convergence_gaps() -> Iterator[Gap]:
    """Of black boxes that stop within 1 % of the best or after their budget, over models and seeds."""
    results = convergence_table.recorded()
    for name, words in SEARCHES.items():
        runs = [run for model in results["models"].values() for run in model["searches"].get(name, ())]
        what = f"the same by {words}, {results['budget']} designs"
        yield gap_over(what, [run["curve"][-1] - 1 for run in runs], f"{RESULTS}/convergence.json")


def text_of(gaps: tuple[Gap, ...]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(GAP_COLUMNS)
    writer.writerows([_cell(getattr(gap, name)) for name in GAP_COLUMNS] for gap in gaps)
    return HEAD + written.getvalue()


def _cell(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def main() -> None:
    gaps = recorded_gaps()
    shipped_folder("gaps.csv").write_text(text_of(gaps), encoding="utf-8")
    print(f"{len(gaps)} gaps written")


if __name__ == "__main__":
    main()
