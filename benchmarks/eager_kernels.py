"""Kernels of profiled training steps beside what we say of each: 58 eager steps of one H200, PyTorch 2.11.

`data/eager_kernels.json.gz` has the operators of each step that launched kernels (name, tensors, arguments), how often,
and the mean microseconds of each kernel; updates are not in it, for a profiler tells no shapes of their tensors.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.bar import REPOSITORY
from dovetail.cost.cost import Cost
from dovetail.cost.eager.launches import launched
from dovetail.cost.eager.times import EagerTimes, eager_times
from dovetail.cost.power import Load, sustained_clock_frac
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO, TERA
from dovetail.workload.dispatched import Argument, DispatchedOp, TensorMeta
from dovetail.workload.graph import FloatArray

TABLE = REPOSITORY / "benchmarks" / "data" / "eager_kernels.json.gz"
WITHIN_FRAC = 0.25
# The first kernel of its own where an operator calls another before it, which has rows of its own in the table.
OWN = {
    "aten._softmax_backward_data.default": ("softmax backward",),
    "aten.native_layer_norm.default": ("norm",),
    "aten.native_layer_norm_backward.default": ("norm backward", "norm columns"),
}
UPDATE_BYTES_PER_S = 2.7 * TERA  # of what is not in the table, nearly all of it the update (14 bytes in 5.1 ps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One profiled step: time in kernels by operator, as measured, and our seconds of the same at the step's clock."""

    name: str
    measured_s: FloatArray  # one entry a kernel, or an operator where we count other kernels; all runs of it
    predicted_s: FloatArray

    @property
    def within_frac(self) -> float:
        """Share of GPU time in kernels that are predicted within a quarter."""
        is_within = np.abs(self.predicted_s / self.measured_s - 1) <= WITHIN_FRAC
        return float(self.measured_s[is_within].sum() / self.measured_s.sum())

    @property
    def ratio(self) -> float:
        return float(self.predicted_s.sum() / self.measured_s.sum())


def steps() -> Iterator[Step]:
    with gzip.open(TABLE, "rt", encoding="utf-8") as file:
        table = json.load(file)
    tensors = [TensorMeta(shape=tuple(s), strides=tuple(t), dtype=d) for d, s, t in table["tensors"]]
    ops = [_op(row, tensors) for row in table["ops"]]
    chip = chips["h200-sxm"]()
    times = eager_times(ops, chip, has_tf32=True)  # as the steps were run
    called = [_num_called(op) for op in ops]
    names, busy_us = list(table["cases"]), list(table["cases"].values())
    for place, name in enumerate(names):
        rows = [(op, num_runs, kernels) for case, op, num_runs, kernels in table["rows"] if case == place]
        yield _step(name, busy_us[place] * MICRO, rows, times, chip, called)


def _op(row: list[object], tensors: list[TensorMeta]) -> DispatchedOp:
    name, inputs, outputs, arguments = row
    assert isinstance(name, str)
    return DispatchedOp(
        name=name,
        inputs=tuple(None if place < 0 else tensors[place] for place in inputs),  # type: ignore[attr-defined]
        outputs=tuple(tensors[place] for place in outputs),  # type: ignore[attr-defined]
        arguments=tuple((key, _plain(value)) for key, value in arguments),  # type: ignore[attr-defined]
    )


def _plain(value: object) -> Argument:
    return tuple(_plain(one) for one in value) if isinstance(value, list) else value  # type: ignore[return-value]


def _num_called(op: DispatchedOp) -> int:
    names = [launch.name for launch in launched(op)] if op.name in OWN else []
    return next((place for place, name in enumerate(names) if name in OWN[op.name]), 0)


def _step(
    name: str, busy_s: float, rows: list[tuple[int, int, list[float]]], times: EagerTimes, chip: Chip, called: list[int]
) -> Step:
    places = np.array([op for op, _, _ in rows])
    num_runs = np.array([count for _, count, _ in rows], dtype=np.float64)
    rest_s = max(busy_s - sum(count * sum(kernels) * MICRO for _, count, kernels in rows), 0.0)
    columns = ("clocked_s", "energy_j", "core_j", "hbm_bytes")
    cost = Cost(
        compute_s=float((times.stream_s[places] * num_runs).sum()),
        **{column: float((getattr(times, column)[places] * num_runs).sum()) for column in columns},
    )
    clock_frac = float(sustained_clock_frac(Load(cost=cost + _update(rest_s, chip)), chip))
    ends = np.concatenate(([0], np.cumsum(times.launches)))
    measured: list[float] = []
    predicted: list[float] = []
    for op, count, kernels in rows:
        parts = times.part_s[ends[op] + called[op] : ends[op + 1]]
        slower = times.kernel_s[op] - times.clocked_s[op] + times.clocked_s[op] / clock_frac
        each_s = parts * slower / times.kernel_s[op] if len(parts) else parts
        is_alike = len(parts) == len(kernels)
        measured += [count * us * MICRO for us in kernels] if is_alike else [count * sum(kernels) * MICRO]
        predicted += (count * each_s).tolist() if is_alike else [count * float(each_s.sum())]
    return Step(name=name, measured_s=np.array(measured), predicted_s=np.array(predicted))


def _update(seconds: float, chip: Chip) -> Cost:
    moved = seconds * UPDATE_BYTES_PER_S
    core_j = moved * chip.energy.sram_j_per_byte
    return Cost(compute_s=seconds, energy_j=core_j + moved * chip.energy.hbm_j_per_byte, core_j=core_j, hbm_bytes=moved)


def main() -> None:
    for step in steps():
        print(f"{step.name:45s} {step.within_frac:6.1%} within a quarter, all kernels {step.ratio:.3f} of measured")


if __name__ == "__main__":
    main()
