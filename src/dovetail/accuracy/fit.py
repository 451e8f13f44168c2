"""A chip's calibration fitted to measurements: a pattern search over its few numbers, judged on rows left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.accuracy.prepared import Prepared
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Calibration, Chip
from dovetail.units import MICRO
from dovetail.workload.graph import BoolArray, FloatArray

NUM_FOLDS = 5
FIRST_STEP, LAST_STEP = 0.25, 0.01  # of the logarithm of a number: 28 % and 1 %
LEAST_GAIN_FRAC = 0.0005  # style: a tolerance; of the error, below which a step is noise and not taken
MAX_FACTOR = 10.0  # how far a number may move, either way; further off, the model lacks something
MAX_FACTOR_FROM_ZERO = 100.0  # where a time of 0 starts from a microsecond
PERTURBATION_FRAC = 0.05  # by which a number is moved to see whether any row notices
LEAST_EFFECT_FRAC = 0.0005  # style: a tolerance; of the mean row, below which a nudge says nothing
FIRST_S = MICRO  # from where a time of 0 starts, which has no logarithm
MAX_ROUNDS = 200
MAX_TRIES = 400  # predictions of all rows that one search may make

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a fit changed, and its mean error before, after, and on rows left out of it in turn.

    Where rows left out are predicted no better than before, nothing is changed: what a fit gains on its own rows is
    noise then.
    """

    chip: Chip
    fitted: tuple[tuple[str, float, float], ...]  # number, before, after
    unchanged: tuple[str, ...]  # numbers that no row tells anything about, or that were right
    num_rows: int
    before_frac: float
    after_frac: float
    cross_validated_frac: float


def fit(prepared: Sequence[Prepared], chip: Chip, log: Log = lambda _: None) -> Fit:
    """The calibration of `chip` with the least mean error over all rows of `prepared`.

    Deterministic: the same rows give the same numbers. `log` is called with what is being done.
    """
    measured = np.concatenate([one.measured for one in prepared])
    if len(measured) < NUM_FOLDS:
        raise InvalidInput(f"a fit needs at least {NUM_FOLDS} rows; got {len(measured)}")

    def predicted(tried: Chip) -> FloatArray:
        return np.concatenate([one.predicted(tried) for one in prepared])

    def errors_frac(tried: Chip) -> FloatArray:
        errors: FloatArray = np.abs(predicted(tried) / measured - 1.0)
        return errors

    names = informed(chip, predicted)
    if not names:
        raise InvalidInput("no number of a calibration changes what is predicted for these rows")
    everything = np.ones(len(measured), dtype=np.bool_)
    best = searched(
        chip, names, errors_frac, everything, log, f"fitting {len(names)} numbers to {len(measured):,} rows"
    )
    before_frac = float(errors_frac(chip).mean())
    cross_validated_frac = _left_out_frac(chip, names, errors_frac, len(measured), log)
    if cross_validated_frac >= before_frac:
        best = chip
    pairs = [(n, getattr(chip.calibration, n), getattr(best.calibration, n)) for n in _numbers(chip.calibration)]
    return Fit(
        chip=best,
        fitted=tuple(pair for pair in pairs if pair[1] != pair[2]),
        unchanged=tuple(name for name, before, after in pairs if before == after),
        num_rows=len(measured),
        before_frac=before_frac,
        after_frac=float(errors_frac(best).mean()),
        cross_validated_frac=cross_validated_frac,
    )


def _left_out_frac(
    chip: Chip, names: Sequence[str], errors_frac: Callable[[Chip], FloatArray], num_rows: int, log: Log
) -> float:
    """Mean error of rows that a fit did not see: every fifth of them is left out once."""
    found = np.zeros(num_rows)
    for fold in range(NUM_FOLDS):
        held = np.arange(num_rows) % NUM_FOLDS == fold
        words = f"cross-validating, {fold + 1} of {NUM_FOLDS}"
        found[held] = errors_frac(searched(chip, names, errors_frac, ~held, log, words))[held]
    return float(found.mean())


def _numbers(calibration: Calibration) -> tuple[str, ...]:
    """The plain numbers of a calibration, whatever they are; text and tables stay as they are."""
    return tuple(f.name for f in fields(calibration) if type(getattr(calibration, f.name)) is float)


def informed(chip: Chip, predicted: Callable[[Chip], FloatArray]) -> tuple[str, ...]:
    """The numbers that these rows say something about: those that move a prediction when nudged."""
    as_is = predicted(chip)
    names = []
    for name in _numbers(chip.calibration):
        nudged = _with(chip, {name: _start(chip, name) + math.log(1 - PERTURBATION_FRAC)})
        if nudged is not None and float(np.abs(predicted(nudged) / as_is - 1.0).mean()) > LEAST_EFFECT_FRAC:
            names.append(name)
    return tuple(names)


def _start(chip: Chip, name: str) -> float:
    """The logarithm of a number of the calibration; one that is 0 starts from a little."""
    return math.log(getattr(chip.calibration, name) or FIRST_S)


def _reach(chip: Chip, name: str) -> float:
    return math.log(MAX_FACTOR if getattr(chip.calibration, name) else MAX_FACTOR_FROM_ZERO)


def searched(
    chip: Chip,
    names: Sequence[str],
    errors_frac: Callable[[Chip], FloatArray],
    rows: BoolArray,
    log: Log = lambda _: None,
    words: str = "fitting",
) -> Chip:
    """Coordinate pattern search in logarithms: step each number up and down, keep what helps, halve the step."""
    here, moved, num_tries = chip, dict[str, float](), 1
    best_frac, step = float(errors_frac(here)[rows].mean()), FIRST_STEP
    for _ in range(MAX_ROUNDS):
        improved = False
        for name in names:
            for sign in (1.0, -1.0):
                tried_logs = {**moved, name: moved.get(name, _start(chip, name)) + sign * step}
                tried = _with(chip, tried_logs)
                if tried is None or abs(tried_logs[name] - _start(chip, name)) > _reach(chip, name):
                    continue
                tried_frac, num_tries = float(errors_frac(tried)[rows].mean()), num_tries + 1
                log(f"{words}: {num_tries} tries, mean error {best_frac:.2%}")
                if tried_frac < best_frac * (1 - LEAST_GAIN_FRAC):
                    here, moved, best_frac, improved = tried, tried_logs, tried_frac, True
                    break
        step = step if improved else step / 2
        if step < LAST_STEP or num_tries >= MAX_TRIES:
            break
    return here


def _with(chip: Chip, logs: dict[str, float]) -> Chip | None:
    """`chip` with some numbers of its calibration, or None where they are outside what a calibration may hold."""
    numbers = {name: math.exp(log) for name, log in logs.items()}
    try:
        calibration = replace(chip.calibration, **numbers)  # type: ignore[arg-type]  # every one is a float field
    except InvalidInput:
        return None
    return replace(chip, calibration=calibration)
