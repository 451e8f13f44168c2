"""Plans that frameworks run as printed and that fit: ten jobs as recorded, and our error of memory on measured runs."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchmarks.bar import Bar, reference_data
from benchmarks.launch_check import JOBS, RECORD
from benchmarks.memory_rows import MemoryRow, h200_rows, published_rows
from dovetail.accuracy.memory_margin import EVIDENCE, FIT_PROBABILITY, fit_probability, spread_of_all
from dovetail.parallel.memory import ALLOCATOR_RESERVE_FRAC

ISSUE = 26
STEPS = "hf_steps/hf_steps.csv"
LEAST_PEAK_GIB = 19.0  # below it blocks of the allocator are not small beside what is held
NOT_TRANSFORMERS = ("tv:", "tvl:")
SAME_FRAC = 1e-9  # style: a tolerance; searches add up in another order than the evaluation of one plan


def bars() -> Iterator[Bar]:
    yield from _launch_bars()
    rows = (*published_rows(), *h200_rows())
    yield from _decision_bars(rows)
    errors = memory_errors(rows)
    table = reference_data(STEPS)
    if table is not None:
        errors["hf_steps"] = allocator_errors(table)
    yield _coverage_bar(errors, "" if table is not None else "without hf_steps, which is not there")
    yield from _evidence_bar(errors)


def _launch_bars() -> Iterator[Bar]:
    name = "ten jobs: the best plan of every framework"
    if not RECORD.exists():
        note = "python -m benchmarks.launch_check has not been run"
        yield Bar(name=name, issue=ISSUE, bar="accepted by its parser", measured="-", holds=None, note=note)
        return
    rows: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    found = [row for row in rows if "step_s" in row]
    refused = [row for row in rows if "step_s" not in row]
    jobs = {row["job"] for row in found}
    told = "; ".join(f"{row['framework']} has none for {row['job']}" for row in refused)
    yield Bar(
        name=name,
        issue=ISSUE,
        bar=f"each of {len(JOBS)} jobs has one that is launched as printed",
        measured=f"{len(jobs)} jobs, {len(found)} plans, {sum(row['runs_as_printed'] for row in found)} as printed",
        holds=jobs == set(JOBS) and all(row["runs_as_printed"] for row in found),
        note=told,
    )
    accepted = [row for row in found if row["parsed"]["accepted"]]
    versions = sorted({f"{row['parsed']['package']} {row['parsed'].get('version', '')}" for row in accepted})
    yield Bar(
        name="launch text: accepted by the framework's own parser",
        issue=ISSUE,
        bar="all",
        measured=f"{len(accepted)} of {len(found)} ({', '.join(versions)})",
        holds=len(accepted) == len(found),
        note="; ".join(
            f"{row['job']} {row['framework']}: {row['parsed']['note']}" for row in found if row not in accepted
        ),
    )
    least = min(row["fit_probability"] for row in found)
    yield Bar(
        name="launch text: how likely the plan fits",
        issue=ISSUE,
        bar=f"at least {FIT_PROBABILITY:.0%}",
        measured=f"{least:.1%} at least",
        holds=least >= FIT_PROBABILITY,
    )
    off = [abs(row["read_back_s"] / row["step_s"] - 1.0) for row in found]
    worst = math.inf if any(map(math.isnan, off)) else max(off)  # none where what was read does not fit
    yield Bar(
        name="launch text: read back and simulated",
        issue=ISSUE,
        bar="the time that was planned",
        measured=f"{worst:.1e} off at worst",
        holds=worst <= SAME_FRAC,
    )


def memory_errors(rows: tuple[MemoryRow, ...]) -> dict[str, list[float]]:
    """By publisher the logarithms of what runs took over what we say."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.is_measured:
            found[row.source.split()[0]].append(math.log(row.measured_bytes / row.predicted_bytes))
    return found


def allocator_errors(table: Path) -> list[float]:
    """What PyTorch reserved over its peak in whole steps of transformers, beside what we count."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["model"].startswith(NOT_TRANSFORMERS)]
    large = [row for row in rows if float(row["peak_gib"]) >= LEAST_PEAK_GIB]
    return [
        math.log(float(row["reserved_gib"]) / float(row["peak_gib"]) / (1 + ALLOCATOR_RESERVE_FRAC)) for row in large
    ]


def _decision_bars(rows: tuple[MemoryRow, ...]) -> Iterator[Bar]:
    framework_of = {one.publisher: one.frameworks[0] for one in EVIDENCE if one.frameworks}

    def is_refused(row: MemoryRow) -> bool:
        framework = framework_of.get(row.source.split()[0], "plain")
        return fit_probability(row.need_bytes, row.limit_bytes, framework) < FIT_PROBABILITY

    decisions = [row for row in rows if row.is_decision]
    failed, ran = ([row for row in decisions if row.has_run == has_run] for has_run in (False, True))
    kept = [row.row for row in failed if not is_refused(row)]
    yield Bar(
        name="published runs that ran out of memory: refused",
        issue=ISSUE,
        bar="all",
        measured=f"{len(failed) - len(kept)} of {len(failed)}",
        holds=not kept,
        note=f"not {', '.join(kept)}" if kept else "",
    )
    share = sum(map(is_refused, ran)) / len(ran)
    yield Bar(
        name="published runs that ran: refused",
        issue=ISSUE,
        bar="at most 3 %",
        measured=f"{share:.1%} of {len(ran)}",
        holds=share <= 0.03,
    )


def _coverage_bar(errors: dict[str, list[float]], note: str) -> Bar:
    num_covered = num_all = 0
    for publisher, of_publisher in errors.items():
        low, high = spread_of_all(tuple(one for one in EVIDENCE if one.publisher != publisher)).interval_frac(0.9)
        num_covered += sum(low <= math.exp(error) <= high for error in of_publisher)
        num_all += len(of_publisher)
    share = num_covered / num_all
    return Bar(
        name="memory: 90 % interval, a publisher left out",
        issue=ISSUE,
        bar="covers 85 to 95 %",
        measured=f"{share:.1%} of {num_all} rows",
        holds=0.85 <= share <= 0.95,
        note=note,
    )


def _evidence_bar(errors: dict[str, list[float]]) -> Iterator[Bar]:
    off = [
        one.publisher
        for one in EVIDENCE
        if one.publisher in errors
        and (
            one.num_rows != len(errors[one.publisher])
            or abs(one.mean - fmean(errors[one.publisher])) > 1e-4
            or abs(one.sd - pstdev(errors[one.publisher])) > 1e-4
        )
    ]
    yield Bar(
        name="memory: what plans are chosen by is what the rows come to",
        issue=ISSUE,
        bar="mean and spread of every publisher",
        measured=f"{len(errors) - len(off)} of {len(EVIDENCE)}",
        holds=not off,
        note=", ".join(off),
    )
