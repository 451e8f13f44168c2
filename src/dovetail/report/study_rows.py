"""Rows of studies for other programs: a column for each knob and figure, and for what every study was asked by."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from dovetail.errors import InvalidInput, shown
from dovetail.report.labels import counted
from dovetail.report.studies import OTHER, Record, base_name, by_job, num_studies, plans_text
from dovetail.report.table import Table
from dovetail.search.algorithms import Scored
from dovetail.search.codesign.networks import AS_GIVEN_WORD
from dovetail.search.study import StudyRecord

BEFORE = {"study": str, "kind": str, "models": str, "model_version": str}
ASKED = {
    "metric": str,
    "base": str,
    "batch": str,
    "seq": str,
    "weights": str,
    "network": str,
    "rule": str,
    "plan_space": str,
    "loss_unit": str,
    "reference_losses": str,
}  # of the study
NETWORK = "network"  # a knob of newer studies: what a row has goes before what its study names
LIMIT = "limit_"  # the beginning of a column of what a design may take at the most
LOSSES = {"loss": float, "excess_frac": float}
AFTER = {"bottleneck": str, "plan": str}


def row_columns(studies: Sequence[StudyRecord]) -> dict[str, type]:
    """A column for each knob and figure of any of `studies`, with what is in it."""
    knobs: dict[str, type] = {}
    for study in studies:
        for name, values in study.knobs.items():
            knobs[name] = str if name == NETWORK else _wider(knobs.get(name, int), values)
        if not study.knobs:
            knobs["point"] = str
    figures = dict.fromkeys((name for study in studies for _, name in study.shown_figures), float)
    limits = dict.fromkeys((f"{LIMIT}{name}" for study in studies for name in study.limits), float)
    fixed = {**BEFORE, **ASKED, **limits, **LOSSES, **AFTER}
    own = [name for name in knobs if name != NETWORK]
    twice = [name for name in (*own, *figures) if name in fixed or (name in knobs and name in figures)]
    if twice:
        message = f"two columns would be named {shown(twice[0])}, for that is a knob or a figure of a study"
        raise InvalidInput(f"{message}; name the study to write alone by --study", "store")
    return {**BEFORE, **ASKED, **limits, **knobs, **LOSSES, **figures, **AFTER}


def _wider(kind: type, values: list[Any]) -> type:
    """What holds values of `kind` and these."""
    if kind is str or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return str
    return float if kind is float or any(isinstance(value, float) for value in values) else int


def row_cells(study: StudyRecord, columns: dict[str, type]) -> Callable[[Scored], list[Any]]:
    """A function from a row of `study` to its cells; None where the study has no such knob or figure."""
    places = {name: place for place, name in enumerate(columns)}
    said = {AS_GIVEN_WORD: study.inputs.get(NETWORK, AS_GIVEN_WORD)}  # a network that a program gave, by its name
    known = {
        name: [said.get(value, value) for value in values] for name, values in study.knobs.items() if name == NETWORK
    }
    knobs = [
        (places[name], [columns[name](value) for value in known.get(name, values)])
        for name, values in study.knobs.items()
    ]
    figures = [(place, places[name]) for place, name in study.shown_figures]
    blank: list[Any] = [None] * len(columns)
    for name, told in _study_cells(study).items():
        blank[places[name]] = told
    plans = plans_text(study)
    loss, excess, bottleneck, plan = (places[name] for name in (*LOSSES, *AFTER))

    def cells(one: Scored) -> list[Any]:
        row = blank.copy()
        if knobs:
            study.check(one.point)
            for (place, values), index in zip(knobs, one.point, strict=True):
                row[place] = values[index]
        else:
            row[places["point"]] = " ".join(map(str, one.point))
        for figure, place in figures:
            row[place] = one.also[figure] if figure < len(one.also) else None
        row[loss], row[excess] = (one.loss if one.loss < math.inf else None), one.excess_frac
        row[bottleneck], row[plan] = one.bottleneck, one.plan or plans
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
        "base": base_name(study) or None,
        "batch": by_job(study, "batch") or None,
        "seq": by_job(study, "seq") or None,
        "weights": by_job(study, "weight") or None,
        "network": said.get("network"),
        "rule": said.get("rule"),
        "plan_space": _plan_spaces(study),
        "loss_unit": said.get("loss_unit"),
        "reference_losses": " + ".join(map(repr, said.get("reference_losses", ()))) or None,
        **{f"{LIMIT}{name}": float(limit) for name, limit in study.limits.items()},
    }


def _plan_spaces(study: StudyRecord) -> str | None:
    """What plans were chosen from, as JSON: of several models a list of theirs."""
    stages = [{name: job[name] for name in ("stages",) if name in job} for job in study.jobs]
    spaces = [job["plans"] | more for job, more in zip(study.jobs, stages, strict=True) if "plans" in job]
    return json.dumps(spaces[0] if len(spaces) == 1 else spaces) if spaces else None


def written_table(
    file: str, num_rows: int, columns: dict[str, type], written: Sequence[StudyRecord], left_out: Sequence[StudyRecord]
) -> Table:
    """What rows were written to `file`, and what was left out."""
    versions = len({study.model_version for study in written})
    notes = [f"columns: {', '.join(columns)}"]
    if versions > 1:
        notes.append(f"numbers of {versions} versions of the model (column model_version): do not compare them")
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
