"""Accuracy, speed and gaps on one page: what a referee asks, in at most 80 columns and some 80 lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from dovetail.accuracy.appraisal import CLOSED_FRAC, NOW, Appraisal, Gap, Speed
from dovetail.accuracy.choice_bars import AT_LEAST
from dovetail.report.accuracy import bar_label
from dovetail.report.labels import counted
from dovetail.report.page import Section
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import MEGA, SECONDS_PER_MINUTE, format_count, format_duration, format_s

_SHOWN_FRAC = 1e-4  # style: a tolerance; the least that a table shows
_RESULTS = "benchmarks/results/"
_MEANING = (
    "errors in % of what was measured: mean, median, 90th percentile; out: rows left out, without a prediction, which"
    " `dovetail validate` names; a set without a documented accuracy promises nothing. Rows ship with the package"
    " (accuracy/data) or lie in the folder that DOVETAIL_REFERENCE_DATA names"
)
_STATISTICS = {"one factor": "error with one factor each", "decided": "decisions on memory"}


def appraisal_record(appraisal: Appraisal) -> Record:
    return {
        "machine": asdict(appraisal.machine),
        "speeds": [_speed_record(speed) for speed in appraisal.speeds],
        "gaps": [asdict(gap) for gap in appraisal.gaps],
        "not_measured": [asdict(not_measured) for not_measured in appraisal.not_measured],
    }


def _speed_record(speed: Speed) -> Record:
    return {
        "operation": speed.operation,
        "what": speed.what,
        "item": speed.item,
        "per_item_s": speed.per_item_s,
        "num_runs": speed.num_runs,
        "peers": [
            {
                "peer": peer.peer,
                "least_s": peer.least_s,
                "most_s": peer.most_s,
                "times": speed.ratio_to(peer),
                "source": peer.source,
            }
            for peer in speed.peers
        ],
    }


def whole_tables(record: Record, appraisal: Appraisal) -> tuple[Table, ...]:
    """The page: a line a set, what is missed, a line an operation and other tool, a line a gap."""
    return (*_accuracy_tables(record), speed_table(appraisal), gap_table(appraisal.gaps))


def _accuracy_tables(record: Record) -> Iterable[Table]:
    sets = [one for one in record["sets"] if one["scores"]]
    rows = tuple(_set_row(one) for one in sets)
    num_missed = sum(row[-1] == "MISSED" for row in rows)
    num_judged = sum(bool(row[-1]) for row in rows)
    yield Table(
        title=f"accuracy: {counted(len(sets), 'set')}, {num_judged - num_missed} of {num_judged} as documented",
        columns=("set", "rows", "out", "MAPE", "median", "p90", "documented", ""),
        rows=rows,
        align="lrrrrrll",
        notes=(_MEANING, *(f"- {note}" for note in record["notes"])),
    )
    judged = _judged(record)
    missed = tuple(row for row, holds in judged if not holds)
    if judged:
        yield Table(
            title=f"choices and intervals: {len(judged) - len(missed)} of {len(judged)} as documented; missed:"
            if missed
            else f"choices and intervals: all {len(judged)} as documented",
            columns=("of", "what", "found", "documented") if missed else (),
            rows=missed,
            align="llrr",
        )


def _set_row(one: Record) -> tuple[str, ...]:
    whole = one["scores"][0]
    num_out = sum(part["num_rows"] for part in one["skipped"])
    bars = [bar for score in one["scores"] for bar in score["bars"]]
    verdict = ("ok" if all(bar["holds"] for bar in bars) else "MISSED") if bars else ""
    return (
        one["set"],
        f"{whole['num_rows']:,}",
        f"{num_out:,}" if num_out else "",
        *(f"{100 * whole[key]:.1f}" for key in ("mape_frac", "median_frac", "p90_frac")),
        bar_label(whole["bars"]),
        verdict,
    )


def _judged(record: Record) -> list[tuple[tuple[str, ...], bool]]:
    """Bars on choosing and on intervals, each with whether it holds."""
    choices = [(one["set"], choice) for one in record["sets"] for choice in one["choices"]]
    found = [(_choice_row(name, choice), bool(choice["holds"])) for name, choice in choices]
    for cover in record.get("coverage", ()):
        limits = f"{100 * cover['least_frac']:.0f} to {100 * cover['most_frac']:.0f} %"
        row = (f"intervals without {cover['left_out']}", "rows inside", f"{100 * cover['covered_frac']:.1f} %", limits)
        found.append((row, bool(cover["holds"])))
    return found


def _choice_row(name: str, choice: Record) -> tuple[str, ...]:
    is_share = choice["statistic"] != "Spearman"
    sign = ">=" if choice["statistic"] in AT_LEAST else "<="
    found, limit = (f"{100 * choice[key]:.1f} %" if is_share else f"{choice[key]:.2f}" for key in ("measured", "limit"))
    words = _STATISTICS.get(choice["statistic"]) or str(choice["statistic"])
    return (str(choice["kind"]) or name, words, found, f"{sign} {limit}")


def speed_table(appraisal: Appraisal) -> Table:
    """A line an operation and other tool; the ratio is to the best that was recorded of that."""
    here = appraisal.machine
    rows = tuple(row for speed in appraisal.speeds for row in _speed_rows(speed))
    meaning = (
        "ours: in CPU seconds of one process, warm, the median of several runs just now; other: the best that is"
        " recorded of it, run: its released code on 2 cores of a shared x86 machine, paper: its authors' figure; times:"
        " that over ours. `--json` has sources and ranges, docs/comparison.md more"
    )
    not_measured = [f"- {one.what}: not tried, {one.why}" for one in appraisal.not_measured]
    return Table(
        title=f"speed: {counted(here.num_cores, 'core')}, {here.processor}, Python {here.python}, NumPy {here.numpy},"
        f" {here.date}",
        columns=("operation", "ours", "other", "times", "who"),
        rows=rows,
        align="lrrrl",
        notes=(meaning, *not_measured),
    )


def _speed_rows(speed: Speed) -> Iterable[tuple[str, ...]]:
    first = (speed.what, _pace(speed.per_item_s, speed.item))
    for peer in speed.peers:
        yield (*first, _pace(peer.least_s, speed.item), _times(speed.ratio_to(peer)), f"{peer.peer}, {peer.how}")
        first = ("", "")


def _pace(per_item_s: float, item: str) -> str:
    """Seconds of one, or how many a second where there are many."""
    if item:
        return f"{format_count(1 / per_item_s)}/s"
    return format_s(per_item_s, 1) if per_item_s < SECONDS_PER_MINUTE else format_duration(per_item_s)


def _times(ratio: float) -> str:
    return format_count(ratio) if ratio >= MEGA else f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def gap_table(gaps: tuple[Gap, ...]) -> Table:
    return Table(
        title="gaps: by how much the best possible answer may be ahead, in %",
        columns=("answers", "n", "best", "mean", "worst", "from"),
        rows=tuple(_gap_row(gap) for gap in gaps),
        align="lrrrrl",
        notes=(
            f"best: how many of n are; now: in this run; else recorded, in {_RESULTS} of the project; searches without"
            " bounds are measured against proven answers",
        ),
    )


def _gap_row(gap: Gap) -> tuple[str, ...]:
    source = NOW if gap.source == NOW else gap.source.removeprefix(_RESULTS).removesuffix(".json")
    return (gap.what, f"{gap.num:,}", f"{gap.num_best:,}", _percent(gap.mean_frac), _percent(gap.worst_frac), source)


def _percent(gap_frac: float) -> str:
    if gap_frac <= CLOSED_FRAC:
        return "0"
    return "<0.01" if gap_frac < _SHOWN_FRAC else f"{100 * gap_frac:.2g}"


def appraisal_sections(appraisal: Appraisal) -> tuple[Section, ...]:
    """Speeds and gaps as parts of a page."""
    tables = (("Speed against other tools", speed_table(appraisal)), ("Gaps to the best", gap_table(appraisal.gaps)))
    return tuple(Section(title=title, tables=(table,)) for title, table in tables)
