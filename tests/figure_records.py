"""Figures out of results that benchmarks recorded: by its key a value, or a group of them."""

from __future__ import annotations

import re
import statistics
from types import SimpleNamespace

from benchmarks import bar_records, convergence_table, paper_records, phaze_records, schedule_records
from dovetail.units import MILLI

NUMBER = re.compile(r"(?<![\w.-])[-+]?\d[\d,]*(?:\.\d+)?")
NEST = "throughput over NEST's manual placement, its system, 1,024 devices, microbatch 1"


class Said(str):
    """A number as a record has it; with a format for floats, formatted as one."""

    def __format__(self, spec: str) -> str:
        return format(float(self.replace(",", "")), spec) if spec.endswith("f") else format(str(self), spec)


def bar(key: str) -> list[Said]:
    """The numbers in what was recorded of a bar, in their order and as they stand there."""
    return [Said(number.rstrip(",")) for number in NUMBER.findall(bar_records.measured()[key])]


def nest(key: str) -> SimpleNamespace:
    """What our plan of a model gains over NEST's manual one, and over an even cut."""
    found = {}
    for name, words in (("manual", bar_records.measured()[NEST]), ("even", bar_records.notes()[NEST])):
        gain = re.search(rf"{re.escape(key)} ([\d.]+)", words)
        assert gain, f"{key} is not in: {words}"
        found[name] = Said(gain[1])
    return SimpleNamespace(**found)


def wham(key: str) -> SimpleNamespace:
    """A claim: its verdict, and the figure of each mapper by reading, from the first on."""
    claim = next(claim for claim in paper_records.recorded("wham")["claims"] if claim["what"] == key)
    return SimpleNamespace(verdict=claim["verdict"], readings=[SimpleNamespace(**one) for one in claim["readings"]])


def phaze(key: str) -> SimpleNamespace:
    """Over the eight models on published or calibrated terms: the least and most of CPU seconds, gap and gains."""
    rows = [row for row in phaze_records.records().values() if row["terms"] == key]
    columns = {name: [float(row[name]) for row in rows] for name in rows[0] if isinstance(rows[0][name], int | float)}
    columns["gap_percent"] = [100 * row["gap_frac"] for row in rows]
    return SimpleNamespace(**{name: SimpleNamespace(least=min(of), most=max(of)) for name, of in columns.items()})


def converged(key: str) -> SimpleNamespace:
    """What a search takes over the exact one, on the mean of models unless said; its thinking in ms a design."""
    results = convergence_table.recorded()
    found = convergence_table.converged(results, key)
    runs = [run for model in results["models"].values() for run in model["searches"].get(key, ())]
    return SimpleNamespace(
        ratio=found.ratio,
        geometric_ratio=found.geometric_ratio,
        least_ratio=min(found.ratios),
        most_ratio=max(found.ratios),
        unthinking_ratio=statistics.fmean(found.unthinking_ratios),
        evaluated_ratio=statistics.fmean(found.evaluated_ratios),
        thinking_ms=sum(run["thinking_s"] for run in runs) / sum(run["num_evaluated"] for run in runs) / MILLI,
    )


def proof(key: str) -> SimpleNamespace:
    """Least and most over models, of what the exact search takes to its proof."""
    found = [model["proof"][key] for model in convergence_table.recorded()["models"].values()]
    return SimpleNamespace(least=min(found), most=max(found))


def bounding(key: str) -> SimpleNamespace:
    """Least and most CPU seconds over models that bounds of all designs take."""
    assert key == "exact"
    found = [model["searches"][key][0]["thinking_s"] for model in convergence_table.recorded()["models"].values()]
    return SimpleNamespace(least=min(found), most=max(found))


def replays(key: str) -> float:
    """By how much replays differ from searches that did schedule, in percent."""
    off = [100 * (one["replayed_s"] / one["true_s"] - 1) for one in convergence_table.recorded()["check"]]
    return float({"least": min(off), "most": max(off), "mean": statistics.fmean(off)}[key])


def schedule_gaps(key: str) -> SimpleNamespace:
    known = schedule_records.records()
    gaps = [100 * one.gap_frac for name, one in known.items() if key in name]
    return SimpleNamespace(n=len(gaps), mean=statistics.fmean(gaps), most=max(gaps), least=min(gaps))
