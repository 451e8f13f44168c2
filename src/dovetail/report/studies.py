"""Studies of a store: as a list, one by one, as JSON, and as rows with a column for each knob and figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from dovetail.report.table import Table
from dovetail.report.words import counted, number
from dovetail.search.algorithms import Scored
from dovetail.search.study import StudyRecord

Record = dict[str, Any]
Best = tuple[Scored, ...]
EXACT_BELOW = 100_000  # numbers with five digits; greater ones in whole
SHORT_KEY = 8  # letters that tell studies of one file apart
OTHER = "of another version of the model, whose numbers are never mixed with this one's"
BEFORE = {"study": str, "kind": str, "models": str, "model_version": str}
ASKED = {"metric": str, "base": str, "batch": str, "loss_unit": str, "reference_losses": str}  # of the study
LIMIT = "limit_"  # the beginning of a column of what a design may take at the most
UNITS = {"_mm2": "mm2", "_w": "W", "_usd": "USD"}  # of limits, by the end of their names
LOSSES = {"loss": float, "excess_frac": float}
AFTER = {"short_of": str, "plan": str}
TOLD_APART = ("jobs", "cases", "base", "metric", "space", "loss_unit", "reference_losses")  # of inputs


def asked_words(study: StudyRecord) -> str:
    """What is looked for: resnet-18 by throughput on tpuv2-like, batch 8, within 606.68 mm2 and 280 W."""
    words = {"by": study.inputs.get("metric"), "on": _base(study)}
    said = [" + ".join(study.job_names), *(f"{how} {what}" for how, what in words.items() if what)]
    devices = max((job.get("num_devices", 1) for job in study.jobs), default=1)
    more = (
        f"batch {_by_job(study, 'batch')}" if _by_job(study, "batch") else "",
        counted(devices, "device") if devices > 1 else "",
        "one kind of stage" if any(job.get("is_stage") for job in study.jobs) else "",
        f"within {' and '.join(map(_limit_words, study.limits.items()))}" if study.limits else "",
    )
    return ", ".join(filter(None, (" ".join(filter(None, said)), *more)))


def _base(study: StudyRecord) -> str:
    base = study.inputs.get("base", {})
    return str(base.get("name", "") if isinstance(base, dict) else base)


def _by_job(study: StudyRecord, key: str) -> str:
    """What is said of each model, in their order."""
    return " + ".join(str(job[key]) for job in study.jobs if key in job)


def _limit_words(limit: tuple[str, float]) -> str:
    name, value = limit
    unit = next((word for ending, word in UNITS.items() if name.endswith(ending)), name)
    return f"{value:.12g} {unit}{' in all' if name.startswith('total') else ''}"


def _plans(study: StudyRecord) -> str:
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
            asked_words(study),
        )
        for study, best in found
    )
    title = f"{num_studies(len(found))} in {file}"
    columns = ("study", "kind", "rows", "best loss", "last written", "asked")
    return Table(title=title, columns=columns if rows else (), rows=rows, align="llrrll", notes=notes)


def _moment(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def study_tables(study: StudyRecord, best: Best) -> tuple[Table, ...]:
    """One study: what was asked, how far it is, and its best rows."""
    version = study.model_version + ("" if study.is_current else f", {OTHER}")
    facts = {
        "asked": asked_words(study) or "-",
        "rows": f"{study.num_rows:,} of {study.num_points:,} designs" if study.knobs else f"{study.num_rows:,}",
        "started": study.started,
        "last written": study.written,
        "model version": version,
        **{key: _plain(value) for key, value in study.inputs.items() if key not in TOLD_APART},
        **({"plan": plans} if (plans := _plans(study)) else {}),
        **({"reference_losses": references} if (references := _references(study)) else {}),
        **{name: " ".join(map(str, values)) for name, values in study.knobs.items()},
    }
    whole = Table(title=f"Study {study.key}: {study.kind}", rows=tuple(facts.items()))
    if not best:
        return (whole,)
    records = [design_record(study, one) for one in best]
    rows = tuple(
        (
            " ".join(str(value) for name, value in record["knobs"].items() if len(study.knobs.get(name, "ab")) > 1)
            or "-",
            *(_cell(value) for value in (record["loss"], *map(record["figures"].get, study.figure_names))),
        )
        for record in records
    )
    title = f"The best {counted(len(best), 'row')}, the least loss first" if len(best) > 1 else "The best row"
    columns = ("design", "loss", *study.figure_names)
    notes = ("Design: its knobs in the order above, without those of one value.",) if study.knobs else ()
    return whole, Table(title=title, columns=columns, rows=rows, align="l" + "r" * (len(columns) - 1), notes=notes)


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
        "asked": asked_words(study),
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
    told = {"inputs": _finite(study.inputs), "figure_names": list(study.figure_names)}
    return study_record(study, best) | told | {"designs": [design_record(study, one) for one in best]}


def design_record(study: StudyRecord, one: Scored) -> Record:
    return {
        "knobs": study.values(one.point) if study.knobs else {"point": list(one.point)},
        "loss": _finite(one.loss),
        "figures": dict(zip(study.figure_names, map(_finite, one.also), strict=False)),
        "short_of": one.short_of,
        "plan": one.plan,
    }


def _finite(value: Any) -> Any:
    """JSON has no infinities."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- rows -----------------------------------------------------------------------------------------------------------


def row_columns(studies: Sequence[StudyRecord]) -> dict[str, type]:
    """A column for each knob and figure of any of `studies`, with what is in it."""
    knobs: dict[str, type] = {}
    for study in studies:
        for name, values in study.knobs.items():
            knobs[name] = _wider(knobs.get(name, int), values)
        if not study.knobs:
            knobs["point"] = str
    figures = dict.fromkeys((name for study in studies for name in study.figure_names), float)
    limits = dict.fromkeys((f"{LIMIT}{name}" for study in studies for name in study.limits), float)
    fixed = {**BEFORE, **ASKED, **limits, **LOSSES, **AFTER}
    twice = [name for name in (*knobs, *figures) if name in fixed or (name in knobs and name in figures)]
    assert not twice, f"two columns are named {twice[0]}"
    return {**BEFORE, **ASKED, **limits, **knobs, **LOSSES, **figures, **AFTER}


def _wider(kind: type, values: list[Any]) -> type:
    """What holds values of `kind` and these."""
    if kind is str or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return str
    return float if kind is float or any(isinstance(value, float) for value in values) else int


def row_cells(study: StudyRecord, columns: dict[str, type]) -> Callable[[Scored], list[Any]]:
    """A function from a row of `study` to its cells; None where the study has no such knob or figure."""
    places = {name: place for place, name in enumerate(columns)}
    knobs = [(places[name], [columns[name](value) for value in values]) for name, values in study.knobs.items()]
    figures = [places[name] for name in study.figure_names]
    blank: list[Any] = [None] * len(columns)
    for name, told in _study_cells(study).items():
        blank[places[name]] = told
    plans = _plans(study)
    loss, excess, short_of, plan = (places[name] for name in (*LOSSES, *AFTER))

    def cells(one: Scored) -> list[Any]:
        row = blank.copy()
        if knobs:
            for (place, values), index in zip(knobs, one.point, strict=True):
                row[place] = values[index]
        else:
            row[places["point"]] = " ".join(map(str, one.point))
        for place, figure in zip(figures, one.also, strict=False):
            row[place] = figure
        row[loss], row[excess] = (one.loss if one.loss < math.inf else None), one.excess_frac
        row[short_of], row[plan] = one.short_of, one.plan or plans
        return row

    return cells


def _study_cells(study: StudyRecord) -> Record:
    """What every row of a study has: by column, None where the study does not say."""
    said = study.inputs
    return {
        "study": study.key,
        "kind": study.kind,
        "models": " + ".join(study.job_names),
        "model_version": study.model_version,
        "metric": said.get("metric"),
        "base": _base(study) or None,
        "batch": _by_job(study, "batch") or None,
        "loss_unit": said.get("loss_unit"),
        "reference_losses": " + ".join(map(repr, said.get("reference_losses", ()))) or None,
        **{f"{LIMIT}{name}": float(limit) for name, limit in study.limits.items()},
    }


def written_table(
    file: str, num_rows: int, columns: dict[str, type], written: Sequence[StudyRecord], left_out: Sequence[StudyRecord]
) -> Table:
    """What rows were written to `file`, and what was left out."""
    versions = len({study.model_version for study in written})
    notes = [f"columns: {', '.join(columns)}"]
    if versions > 1:
        notes.append(f"numbers of {versions} versions of the model, told apart by model_version: do not compare them")
    if left_out:
        notes.append(f"left out: {num_studies(len(left_out))} {OTHER}; --other-versions writes these too")
    title = f"Wrote {counted(num_rows, 'row')} of {num_studies(len(written))} to {file}"
    return Table(title=title, notes=tuple(notes))


def written_record(
    file: str, num_rows: int, columns: dict[str, type], written: Sequence[StudyRecord], left_out: Sequence[StudyRecord]
) -> Record:
    return {
        "file": file,
        "num_rows": num_rows,
        "columns": list(columns),
        "studies": [study.key for study in written],
        "model_versions": sorted({study.model_version for study in written}),
        "left_out": [study.key for study in left_out],
    }


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
