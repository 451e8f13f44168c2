"""Figures out of the accuracy page, which a test holds to what the command prints, and of measurements that ship."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from benchmarks import dies, layer_rows, memory_rows
from dovetail.accuracy.evidence import class_of_row, evidence
from dovetail.accuracy.fit import fit
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.files.residuals import load_residuals
from dovetail.hardware.catalog import chips
from tests.page_rules import sections

ROOT = Path(__file__).resolve().parent.parent
# what has to agree for two published rows to be of one configuration
CONFIGURATION = (
    *("model", "layers", "hidden", "seq", "global_batch", "micro_batch", "n_gpus", "gpu", "TP", "PP", "DP", "CP", "EP"),
    *("virtual_stages", "recompute", "zero_stage", "precision"),
)

LATER = "gemm2048x1024x2560"
KERNELS = (
    (r"gemm(?:16x8192x8192|128x8192x8192|32x14336x4096|256x16384x4096)$", "skinny products"),
    (r"gemm", "products"),
    (r"attention_backward", "attention, backward"),
    (r"attention", "attention"),
    (r"(?:layer|rms)norm", "norms"),
    (r"softmax|cross_entropy", "softmax, cross entropy"),
    (r"gelu|silu|add|copy", "element by element"),
    (r"embedding|adamw", "embeddings, Adam"),
    (r"conv.*x3$", "convolutions of 3x3"),
    (r"conv", "convolutions of one pixel"),
)


@cache
def accuracy_tables() -> dict[str, list[list[str]]]:
    """The rows of every table of the accuracy page, by the heading that it is under."""
    found = sections((ROOT / "benchmarks" / "results" / "accuracy.md").read_text(encoding="utf-8"))
    return {
        heading: [
            [cell.strip() for cell in line.strip("| ").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)
        ]
        for heading, text in found.items()
    }


def scores(key: str) -> SimpleNamespace:
    """A set's errors in percent, or with `set / kind` those of a kind."""
    name, _, kind = key.partition(" / ")
    heading = "By kind of operator" if kind else "Time, power and cycles"
    [row] = [row for row in accuracy_tables()[heading] if row[0] == name and (not kind or row[1] == kind)]
    n, mape, median, p90 = (float(cell.replace(",", "")) for cell in row[2:6])
    return SimpleNamespace(n=int(n), mape=mape, median=median, p90=p90)


def worst(key: str) -> float:
    """The error of a set's worst row, in percent."""
    [row] = [row for row in accuracy_tables()["Worst rows"] if row[0] == key]
    return abs(float(row[-1]))


def choice(key: str) -> SimpleNamespace:
    """`of / what`: what is found of a bar on choosing, and the bar."""
    of, _, what = key.partition(" / ")
    [row] = [row for row in accuracy_tables()["Bars on choosing"] if row[:2] == [of, what]]
    return SimpleNamespace(found=float(row[3]), bar=float(row[4].split()[-1]), n=int(row[2]))


def interval(key: str) -> SimpleNamespace:
    """How many published runs an interval has inside, in percent, with a row or a publisher left out."""
    [row] = [row for row in accuracy_tables()["Do 90 % intervals hold"] if row[0] == key]
    return SimpleNamespace(n=int(row[1]), inside=float(row[2]), wide=float(row[3]))


def beside(key: str) -> SimpleNamespace:
    """Of rows that another predictor was asked about too: how many, and our error in percent."""
    [row] = [row for row in accuracy_tables()["Against other predictors"] if row[0] == key]
    return SimpleNamespace(n=int(row[1]), ours=float(row[2]))


def publishers(key: str) -> int:
    """Whose runs a set has, as the accuracy page lists them."""
    return sum(row[0] == key for row in accuracy_tables()["By kind of operator"])


def unpredicted(key: str) -> int:
    """Rows of a set that have no prediction, as the accuracy page lists them."""
    page = (ROOT / "benchmarks" / "results" / "accuracy.md").read_text(encoding="utf-8")
    return sum(int(num) for num in re.findall(rf"^- {key}: (\d+) ", page, re.MULTILINE))


def of_errors(errors: list[float]) -> SimpleNamespace:
    """Of errors as shares: how many, and in percent mean, worst and how many are within ten."""
    sizes = [100 * abs(error) for error in errors]
    near = sum(size <= 10 for size in sizes)
    return SimpleNamespace(n=len(sizes), mean=statistics.fmean(sizes), worst=max(sizes), near=near)


@cache
def published_memory() -> tuple[memory_rows.MemoryRow, ...]:
    return tuple(memory_rows.published_rows())


def memory(key: str) -> SimpleNamespace:
    """Of layers and steps on an H200, of published peaks by what they are of, or of decisions whether a run fits."""
    if key == "layers":
        return of_errors([row.error_frac for row in layer_rows.layer_rows()])
    rows = tuple(memory_rows.h200_rows()) if key == "h200" else published_memory()
    if key == "decisions":
        right = [row.is_decided_right for row in rows if row.is_decision]
        return SimpleNamespace(n=len(right), right=sum(right), ran=sum(row.has_run for row in rows if row.is_decision))
    return of_errors([row.error_frac for row in rows if row.is_measured and key in ("h200", row.kind)])


def refitted(key: str) -> float:
    """Error in percent on each fifth of a table of the H200, fitted to the others, as `dovetail calibrate` says."""
    sets = prepared(load_measurements(shipped_folder("h200") / f"{key}.csv"), TableContext())
    return 100 * fit(sets, chips["h200-sxm"]()).cross_validated_frac


def mixtures(key: str) -> SimpleNamespace:
    """Errors on a publisher's mixtures of experts."""
    rows = [row for row in load_residuals() if row.publisher == key and row.is_mixture]
    return of_errors([math.exp(-row.log_ratio) - 1 for row in rows])


def releases(key: str) -> SimpleNamespace:
    """Of configurations that a publisher lists more than once: how far fastest and slowest are apart, in percent."""
    with (shipped_folder("published") / "published_training.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if key in row["source"] and row["tokens_per_s_per_gpu"]]
    paces = defaultdict(list)
    for row in rows:
        paces[tuple(row[name] for name in CONFIGURATION)].append(float(row["tokens_per_s_per_gpu"]))
    apart = [100 * (max(found) / min(found) - 1) for found in paces.values() if len(found) > 1]
    return SimpleNamespace(n=len(apart), median=statistics.median(apart), tenth=sum(one >= 10 for one in apart))


@cache
def contention_kinds() -> dict[str, list[float]]:
    """Errors of kernels beside a collective in percent, by kind and by whether the rules were made with them in sight.

    Rows stand in the order in which kernels were timed; from LATER on that was after the rules.
    """
    with (shipped_folder("h200") / "contention_kernels.csv").open(encoding="utf-8", newline="") as file:
        names = list(dict.fromkeys(row["compute"] for row in csv.DictReader(file)))
    found = defaultdict(list)
    for index, name in enumerate(names):
        kind = next(kind for pattern, kind in KERNELS if re.match(pattern, name))
        when = "afterwards" if index >= names.index(LATER) else "in sight"
        found[f"{kind}, {when}"].append(scores(f"contention_kernels / {name}").mape)
    return found


def contention(key: str) -> SimpleNamespace:
    errors = contention_kinds()[key]
    return SimpleNamespace(n=len(errors), mean=statistics.fmean(errors), worst=max(errors))


def slowdown(key: str) -> float:
    """Of a kernel beside so many blocks, launched one by one or from a graph, as measured."""
    kernel, queue, num_blocks = key.split()
    with (shipped_folder("h200") / "contention_kernels.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["compute"], row["queue"]) == (kernel, queue)]
    return next(float(row["slowdown"]) for row in rows if row["comm_blocks"] == num_blocks)


@cache
def is_covered() -> tuple[tuple[str, bool, bool], ...]:
    """Of every published run its publisher, whether it is of a mixture, and whether others' runs cover it."""
    rows = load_residuals()
    found = []
    for row in rows:
        others = [other for other in rows if other.publisher != row.publisher]
        half_width = evidence(class_of_row(row), others).half_width
        found.append((row.publisher, row.is_mixture, abs(row.log_ratio) <= half_width))
    return tuple(found)


def covered(key: str) -> float:
    """In percent, of a publisher, or of `dense` models or `mixtures`, with their publisher left out."""
    kinds = {"dense": False, "mixtures": True}
    rows = [
        inside for publisher, is_mixture, inside in is_covered() if key == publisher or kinds.get(key) is is_mixture
    ]
    return 100 * statistics.fmean(rows)


@cache
def die_rows() -> dict[str, dict[str, dies.Row]]:
    """Published areas and power limits beside ours, by what was fitted."""
    tables = {
        "area": (*dies.area_rows(), *dies.other_rows()),
        "area left out": dies.left_out_area_rows(),
        "power": (*dies.tdp_rows(), *dies.other_tdp_rows()),
        "power left out": dies.left_out_tdp_rows(),
    }
    return {what: {row.name: row for row in rows} for what, rows in tables.items()}


def die(key: str) -> SimpleNamespace:
    """`area / CHIP`, `power left out / CHIP`: ours, and how far off in percent."""
    what, _, name = key.partition(" / ")
    row = die_rows()[what][name]
    return SimpleNamespace(known=row.known, ours=row.predicted, off=100 * row.error_frac, small=-100 * row.error_frac)


def products(key: str) -> SimpleNamespace:
    """All products of the sets named, as one."""
    found = [scores(name) for name in key.split(" + ")]
    num = sum(one.n for one in found)
    return SimpleNamespace(n=num, mape=sum(one.n * one.mape for one in found) / num)
