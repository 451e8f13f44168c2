"""Training steps of models as their code runs: recorded operator by operator, time and peak memory beside measured."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, StepCase, StepFigures, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import DovetailError, InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import GIBI, MILLI
from dovetail.workload.graph import FloatArray

NEEDED = ("model", "batch", "seq", "mode", "recompute", "amp", "iter_ms", "peak_gib")
PROMISE, MEMORY = "h200 code", "h200 code memory"


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    record_steps = given.record_steps
    if record_steps is None:
        raise InvalidInput("steps of models that a table names are recorded by dovetail validate FILE.csv")
    chip = chip_for(given)
    cases = step_cases(measurements)
    step_s, peak = measurements.positive("iter_ms") * MILLI, measurements.positive("peak_gib")
    found = record_steps(cases, chip)
    kept = [row for row, one in enumerate(found) if isinstance(one, StepFigures)]
    failed = Counter(f"{cases[row].words}: {one}" for row, one in enumerate(found) if isinstance(one, DovetailError))
    known = [cases[row] for row in kept]
    figures = {chip: [one for one in found if isinstance(one, StepFigures)]}

    def of(chip: Chip) -> list[StepFigures]:
        if chip not in figures:
            figures[chip] = [_sure(one) for one in record_steps(known, chip)]
        return figures[chip]

    def predicted_s(chip: Chip) -> FloatArray:
        return np.array([one.step_s for one in of(chip)])

    def predicted_peak(chip: Chip) -> FloatArray:
        return np.array([one.peak_bytes / GIBI for one in of(chip)])

    time = Prepared(
        name=measurements.name,
        chip=chip,
        unit="s",
        kinds=tuple(case.mode for case in known),
        whats=tuple(case.words for case in known),
        measured=step_s[kept],
        predicted=predicted_s,
        promise=promise_for(chip, PROMISE),
        skipped=tuple(sorted(failed.items())),
    )
    memory = replace(
        time,
        name=f"{measurements.name} memory",
        unit="GiB",
        measured=peak[kept],
        predicted=predicted_peak,
        promise=promise_for(chip, MEMORY),
        skipped=(),
    )
    return time, memory


def step_cases(table: Measurements) -> list[StepCase]:
    counts = [table.counts(column).tolist() for column in ("batch", "seq")]
    flags = [table.counts(column, least=0).tolist() for column in ("recompute", "amp")]
    return [
        StepCase(model=model, batch=batch, seq=seq, mode=mode, is_checkpointed=bool(again), is_autocast=bool(autocast))
        for model, mode, batch, seq, again, autocast in zip(
            table.words("model"), table.words("mode"), *counts, *flags, strict=True
        )
    ]


def _sure(found: StepFigures | DovetailError) -> StepFigures:
    if isinstance(found, DovetailError):
        raise found
    return found


sets.register("recorded-steps")(
    Format(
        needed=NEEDED,
        summary="steps of models as their code runs: model, batch, seq, mode, recompute, amp, iter_ms, peak_gib",
        prepare=prepare,
    )
)
