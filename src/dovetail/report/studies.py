"""Studies of a store: as a list, one by one, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dovetail.report.labels import counted, number
from dovetail.report.table import Table
from dovetail.search.algorithms import Scored
from dovetail.search.study import StudyRecord

Record = dict[str, Any]
Best = tuple[Scored, ...]
EXACT_BELOW = 100_000  # numbers with five digits; greater ones in whole
FEW_FIGURES = 3  # side by side on a narrow screen
SHORT_KEY = 8  # letters that tell studies of one file apart
OTHER = "of another version of the model or with other plugins, whose numbers are never mixed with this one's"
UNITS = {"_mm2": "mm2", "_w": "W", "_usd": "USD"}  # of limits, by the end of their names
TOLD_APART = ("jobs", "cases", "base", "metric", "space", "loss_unit", "reference_losses")  # of inputs


def question_label(study: StudyRecord) -> str:
    """What is looked for: resnet-18 by throughput on tpuv2-like, batch 8, within 606.68 mm2 and 280 W."""
    words = {"by": study.inputs.get("metric"), "on": base_name(study)}
    said = [" + ".join(study.job_names), *(f"{how} {what}" for how, what in words.items() if what)]
    more = (
        f"batch {by_job(study, 'batch')}" if by_job(study, "batch") else "",
        f"seq {by_job(study, 'seq')}" if by_job(study, "seq") else "",
        _devices(study),
        str(study.inputs.get("network", "")),
        f"space {study.inputs['rule']}" if "rule" in study.inputs else "",
        "every system scored" if study.inputs.get("exhaustive") else "",
        "one kind of stage" if any(job.get("is_stage") for job in study.jobs) else "",
        f"within {' and '.join(map(_limit_label, study.limits.items()))}" if study.limits else "",
    )
    return ", ".join(filter(None, (" ".join(filter(None, said)), *more)))


def _devices(study: StudyRecord) -> str:
    """How many there are, or may be."""
    counts = study.knobs.get("num_devices") or [max((job.get("num_devices", 1) for job in study.jobs), default=1)]
    if counts == [1]:
        return ""
    return counted(int(counts[0]), "device") if len(counts) == 1 else f"{' or '.join(f'{n:,}' for n in counts)} devices"


def base_name(study: StudyRecord) -> str:
    base = study.inputs.get("base", {})
    return str(base.get("name", "") if isinstance(base, dict) else base)


def by_job(study: StudyRecord, key: str) -> str:
    """What is said of each model, in their order."""
    return " + ".join(str(job[key]) for job in study.jobs if key in job)


def _limit_label(limit: tuple[str, float]) -> str:
    name, value = limit
    unit = next((word for ending, word in UNITS.items() if name.endswith(ending)), name)
    return f"{value:.12g} {unit}{' in all' if name.startswith('total') else ''}"


def plans_text(study: StudyRecord) -> str:
    """The plans that a question is asked for, as JSON; empty where they are searched."""
    plans = [job["plan"] for job in study.jobs if "plan" in job]
    return json.dumps(plans[0] if len(plans) == 1 else plans) if plans else ""


def num_studies(count: int) -> str:
    return "1 study" if count == 1 else f"{count:,} studies"


def studies_table(found: Sequence[tuple[StudyRecord, Best]], file: str) -> Table:
    others = sum(not study.is_current for study, _ in found)
    notes = (f"* {OTHER}",) if others else ()
    rows = tuple(
        (
            study.key[:SHORT_KEY] + ("" if study.is_current else "*"),
            study.kind,
            f"{study.num_rows:,}",
            number(best[0].loss) if best else "-",
            _moment(study.written),
            question_label(study),
        )
        for study, best in found
    )
    title = f"{num_studies(len(found))} in {file}"
    columns = ("study", "kind", "rows", "best loss", "last written", "asked")
    return Table(title=title, columns=columns if rows else (), rows=rows, align="llrrll", notes=notes)


def studies_tables(found: Sequence[tuple[StudyRecord, Best]], file: str) -> tuple[Table, ...]:
    """As `studies_table`, for a narrow screen: how far each is, and below what it was asked."""
    whole = studies_table(found, file)
    if not whole.rows:
        return (whole,)
    far = Table(
        title=whole.title,
        columns=whole.columns[:4],
        rows=tuple(row[:4] for row in whole.rows),
        align="llrr",
        notes=whole.notes,
    )
    asked = tuple((row[0], row[4], row[5]) for row in whole.rows)
    return far, Table(title="What was asked", columns=("study", "last written", "asked"), rows=asked)


def _moment(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def study_tables(study: StudyRecord, best: Best) -> tuple[Table, ...]:
    """One study: what was asked, how far it is, and its best rows."""
    version = study.model_version + ("" if study.is_current else f", {OTHER}")
    facts = {
        "question": question_label(study) or "-",
        "rows": f"{study.num_rows:,} of {study.num_points:,} designs" if study.knobs else f"{study.num_rows:,}",
        "started": study.started,
        "last written": study.written,
        "model version": version,
        **{key: _plain(value) for key, value in study.inputs.items() if key not in TOLD_APART},
        **({"plan": plans} if (plans := plans_text(study)) else {}),
        **({"reference_losses": references} if (references := _references(study)) else {}),
        **{name: " ".join(map(str, values)) for name, values in study.knobs.items()},
    }
    whole = Table(title=f"Study {study.key}: {study.kind}", rows=tuple(facts.items()))
    if not best:
        return (whole,)
    records, names = [design_record(study, one) for one in best], [name for _, name in study.shown_figures]
    rows = tuple(
        (
            " ".join(str(value) for name, value in record["knobs"].items() if len(study.knobs.get(name, "ab")) > 1)
            or "-",
            *(_cell(value) for value in (record["loss"], *map(record["figures"].get, names))),
        )
        for record in records
    )
    title = f"The best {counted(len(best), 'row')}, the least loss first" if len(best) > 1 else "The best row"
    notes = ("Design: its knobs in the order above, without those of one value.",) if study.knobs else ()
    return whole, *_narrow(Table(title=title, columns=("design", "loss", *names), rows=rows, notes=notes))


def _narrow(table: Table) -> tuple[Table, ...]:
    """`table` as it is with few figures; else the designs first, and figures a few at a time, in the same order."""
    first, rest = table.columns[:2], table.columns[2:]
    if len(rest) <= FEW_FIGURES:
        return (replace(table, align="l" + "r" * (len(table.columns) - 1)),)
    places = [str(place) for place in range(1, len(table.rows) + 1)]
    numbered = tuple((place, *row[:2]) for place, row in zip(places, table.rows, strict=True))
    parts = [Table(title=table.title, columns=("", *first), rows=numbered, align="rlr", notes=table.notes)]
    for start in range(0, len(rest), FEW_FIGURES):
        end = start + FEW_FIGURES
        rows = tuple((place, *row[2:][start:end]) for place, row in zip(places, table.rows, strict=True))
        columns = ("", *rest[start:end])
        parts.append(Table(title="Their figures", columns=columns, rows=rows, align="r" * len(columns)))
    return tuple(parts)


def _references(study: StudyRecord) -> str:
    """What losses are over, with their unit."""
    losses, unit = study.inputs.get("reference_losses", ()), study.inputs.get("loss_unit", "")
    return " ".join(filter(None, (" + ".join(f"{loss:.6g}" for loss in losses), unit)))


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_plain, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, float) and abs(value) < EXACT_BELOW:
        return f"{value:.5g}"
    return "-" if value is None else number(value) if isinstance(value, float) else str(value)


def study_record(study: StudyRecord, best: Best) -> Record:
    """A study as JSON has it in a list."""
    return {
        "study": study.key,
        "kind": study.kind,
        "models": list(study.job_names),
        "question": question_label(study),
        "num_designs": study.num_points if study.knobs else None,
        "num_rows": study.num_rows,
        "best": design_record(study, best[0]) if best else None,
        "started": study.started,
        "written": study.written,
        "model_version": study.model_version,
        "is_current": study.is_current,
    }


def whole_record(study: StudyRecord, best: Best) -> Record:
    """A study as JSON has it alone: with all it was asked by, and its best rows."""
    told = {"inputs": _finite(study.inputs), "figure_names": [name for _, name in study.shown_figures]}
    return study_record(study, best) | told | {"designs": [design_record(study, one) for one in best]}


def design_record(study: StudyRecord, one: Scored) -> Record:
    return {
        "knobs": study.values(one.point) if study.knobs else {"point": list(one.point)},
        "loss": _finite(one.loss),
        "figures": {name: _finite(one.also[at]) for at, name in study.shown_figures if at < len(one.also)},
        "bottleneck": one.bottleneck,
        "plan": one.plan,
    }


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rescued_table(file: str, studies: Sequence[Record]) -> Table:
    """What was saved of each study of a damaged store."""
    rows = tuple(
        (one["key"][:SHORT_KEY], one["kind"], f"{one['num_saved']:,}", f"{one['num_rows']:,}") for one in studies
    )
    return Table(
        title=f"Saved the rows that are whole to {file}",
        columns=("study", "kind", "rows saved", "rows written once"),
        rows=rows,
        align="llrr",
        notes=("the same command with this store goes on from there, and evaluates the rest again",),
    )
