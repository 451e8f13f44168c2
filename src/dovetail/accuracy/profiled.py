"""A profile beside what we predict of the operators in it, on the chip it was taken on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.accuracy.columns import bare_ops, stacked
from dovetail.accuracy.prepared import Prepared
from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.hardware.chip import Chip
from dovetail.hardware.measured import (
    BACKWARD,
    NOT_MEASURED,
    UPDATE,
    LeftOut,
    Measured,
    MeasuredExchange,
    MeasuredOp,
    Profile,
    merged,
)
from dovetail.workload.graph import FloatArray, IntArray, Ops, Phase
from dovetail.workload.operators import OPERATORS, Unit, code_of

_WEIGHTS = ("embedding", "embedding_bag", "bias_grad")  # whose backward pass is a gradient of weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOp:
    """One operator of a profile, all its streams together, and what we say a run of it takes."""

    op: MeasuredOp
    predicted_s: float

    @property
    def error_frac(self) -> float:
        """Above 0 where we say more than was measured."""
        return self.predicted_s / self.op.time_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """A profile against predictions: operators by the time they have, and what of it could not be compared."""

    profile: Profile
    chip: str
    rows: tuple[ProfiledOp, ...]
    not_predicted: tuple[LeftOut, ...]  # what the chip has no rate for

    @property
    def measured_s(self) -> float:
        return sum(row.op.total_s for row in self.rows)

    @property
    def predicted_s(self) -> float:
        return sum(row.op.num_runs * row.predicted_s for row in self.rows)

    @property
    def collectives(self) -> tuple[MeasuredExchange, ...]:
        return self.profile.collectives

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """All that is compared with nothing, the longest first."""
        return tuple(sorted((*self.profile.left_out, *self.not_predicted), key=lambda one: -one.total_s))

    @property
    def compared_frac(self) -> float:
        """Of all the time that was measured, what is compared."""
        busy_s = self.profile.busy_s
        return self.measured_s / busy_s if busy_s else 0.0


def profiled(profile: Profile, chip: Chip) -> Profiled:
    """`profile` against what we predict on `chip`, whatever was measured on it."""
    bare = as_profiled(chip, profile)
    ops = sorted(merged(profile.ops), key=lambda op: -op.total_s)
    known = [op for op in ops if _has_rate(op, bare)]
    predicted_s = predicted_run_s(known, bare)
    rows = zip(known, predicted_s.tolist(), strict=True)
    return Profiled(
        profile=profile,
        chip=chip.name,
        rows=tuple(ProfiledOp(op=op, predicted_s=time_s) for op, time_s in rows),
        not_predicted=tuple(
            LeftOut(
                name=op.name or op.kind,
                why=f"{chip.name} has no rate for {op.dtype}",
                total_s=op.total_s,
                num_runs=op.num_runs,
            )
            for op in ops
            if not _has_rate(op, bare)
        ),
    )


def prepared(found: Profiled, chip: Chip) -> Prepared:
    """The rows as a set of measurements, to be scored like any other; no bar holds for it."""
    ops = [row.op for row in found.rows]
    return Prepared(
        name=found.profile.source,
        chip=chip,
        unit="s",
        kinds=tuple(kind_label(op) for op in ops),
        whats=tuple(f"{shape_label(op)} {op.dtype}" for op in ops),
        measured=np.array([op.time_s for op in ops]),
        predicted=lambda one: predicted_run_s(ops, as_profiled(one, found.profile)),
    )


def as_profiled(chip: Chip, profile: Profile) -> Chip:
    """`chip` as a profile shows it: nothing measured goes before predictions, and no time passes between kernels.

    Profilers time a kernel from its start to its end. What passes until the next one starts is a step's all the same.
    """
    calibration = chip.calibration if profile.is_host_time else replace(chip.calibration, launch_s=0.0)
    return replace(chip, measured=NOT_MEASURED, calibration=calibration)


def measured_on(profile: Profile, chip: Chip) -> Measured:
    """The operators of `profile` as times that a step on `chip` has: kernels, and what passes between them."""
    launch_s = chip.calibration.launch_s
    ops = (replace(op, time_s=op.time_s + launch_s * op.num_kernels / op.num_runs) for op in merged(profile.ops))
    return Measured(source=profile.source, ops=tuple(ops))


def predicted_run_s(ops: Sequence[MeasuredOp], chip: Chip) -> FloatArray:
    """What a run of each takes behind others, at full clock."""
    if not ops:
        return np.zeros(0)
    rows, owner = rows_of(ops)
    costs = op_costs(rows, chip, Setting.STREAM)
    return np.asarray(np.bincount(owner, weights=costs.compute_s, minlength=len(ops)), dtype=np.float64)


def rows_of(ops: Sequence[MeasuredOp]) -> tuple[Ops, IntArray]:
    """Rows of a graph for measured operators, and whose each is: a convolution's backward pass has two."""
    parts = [(index, phase, op) for index, op in enumerate(ops) for phase in _phases(op)]
    return stacked([_row(op, phase) for _, phase, op in parts]), np.array([index for index, *_ in parts])


def _phases(op: MeasuredOp) -> tuple[Phase, ...]:
    if op.phase == UPDATE:
        return (Phase.UPDATE,)
    if op.phase != BACKWARD:
        return (Phase.FORWARD,)
    if op.kind == "convolution":
        return (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
    return (Phase.WEIGHT_GRAD,) if op.kind in _WEIGHTS else (Phase.INPUT_GRAD,)


def _row(op: MeasuredOp, phase: Phase) -> Ops:
    (b, m, n, k, v), (a_frac, b_frac, c_frac) = op.extents, op.distinct_frac
    if op.kind == "convolution" and phase == Phase.INPUT_GRAD:  # as workload.training has it
        n, k, a_frac, c_frac = k, n, c_frac, a_frac
    elif op.kind == "convolution" and phase == Phase.WEIGHT_GRAD:
        m, k, b_frac, c_frac = k, m, c_frac, b_frac
    ops = bare_ops(
        kind=code_of(op.kind),
        phase=phase,
        dtypes=[op.dtype],
        extents=(b, m, n, k, v),
        distinct_frac=(a_frac, b_frac, c_frac),
        work_frac=op.work_frac,
    )
    return replace(ops, stride=np.array([op.stride], dtype=np.int64))


def _has_rate(op: MeasuredOp, chip: Chip) -> bool:
    is_tensor = OPERATORS[code_of(op.kind)].unit == Unit.TENSOR
    return not is_tensor or op.dtype in dict(chip.tensor.rates)


def kind_label(op: MeasuredOp) -> str:
    kind = f"causal {op.kind}" if op.kind == "attention" and op.work_frac < 1 else op.kind
    return kind if op.phase != BACKWARD else f"{kind} {op.phase}"


def shape_label(op: MeasuredOp) -> str:
    """The shape as a person says it: 2048x4096x14336 of a product is m, n and k; of attention, heads come first."""
    b, m, n, k, _ = op.extents
    if op.kind == "attention":
        return f"{b}x{m}x{n}x{k}"
    if OPERATORS[code_of(op.kind)].unit == Unit.TENSOR:
        return f"{f'{b} x ' if b > 1 else ''}{m}x{n}x{k}"
    return f"{b * m}x{n}"
