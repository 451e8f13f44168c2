"""Two constants of the TPUs' calibration on published steps, and errors leaving a generation out.

`python -m benchmarks.tpu_steps` prints the fit: the share of peak that products reach as XLA compiles them
(`tensor_frac`), and how much of the collectives beside compute a step is longer by (`SHOWN_FRAC` of the ICI endpoint).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from benchmarks.bar import REPOSITORY
from dovetail.accuracy.runs.jobs import PublishedRun
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.tpu_rows import tpu_run_of
from dovetail.files.measurements import load_measurements
from dovetail.hardware.endpoints import endpoints
from dovetail.hardware.endpoints.ici import ICI, SHOWN_FRAC
from dovetail.hardware.families.tpu import TPU_CALIBRATION
from dovetail.parallel.plan import columns_of
from dovetail.step.step import step_times
from dovetail.units import PERCENT
from dovetail.workload.graph import FloatArray, Graph
from dovetail.workload.training import training_graph

TABLE = REPOSITORY / "src/dovetail/accuracy/data/published/published_tpu.csv"
TENSOR_FRACS = (0.72, 0.75, 0.78, 0.81, 0.84, 0.87, 0.90)
SHOWN_FRACS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Constants = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Errors of one generation by constants fitted on the others."""

    chip: str
    constants: Constants
    errors: FloatArray  # predicted over measured, less 1


def runs() -> list[PublishedRun]:
    table = load_measurements(TABLE)
    return [tpu_run_of(Row(cells=dict(zip(table.columns, cells, strict=True)))) for cells in table.rows]


@contextmanager
def _endpoint(shown_frac: float) -> Iterator[None]:
    """The ICI endpoint with another share, for a while."""
    entry = endpoints[ICI]
    before = entry.slowdown_frac
    object.__setattr__(entry, "slowdown_frac", shown_frac)
    try:
        yield
    finally:
        object.__setattr__(entry, "slowdown_frac", before)


@cache
def _graphs() -> tuple[tuple[PublishedRun, Graph], ...]:
    return tuple((job, training_graph(job.model.forward(job.sample), job.precision)) for job in runs())


@cache
def errors(tensor_frac: float, shown_frac: float) -> FloatArray:
    """Predicted over measured, less 1, of every run by those constants."""
    found = []
    with _endpoint(shown_frac):
        for job, graph in _graphs():
            chip = job.cluster.chip
            fitted = replace(chip, calibration=replace(chip.calibration, tensor_frac=tensor_frac))
            cluster = replace(job.cluster, chip=fitted)
            times = step_times(graph, columns_of([job.plan]), cluster, job.precision)
            found.append(float(times.step_s[0]) / job.measured_s - 1)
    return np.array(found)


def fitted(of: list[bool]) -> Constants:
    """The constants of least mean absolute error over some of the runs."""
    grid = list(product(TENSOR_FRACS, SHOWN_FRACS))
    return min(grid, key=lambda one: float(np.abs(errors(*one)[of]).mean()))


def left_out() -> list[LeftOut]:
    chips = [job.publisher for job, _ in _graphs()]
    found = []
    for chip in sorted(set(chips)):
        constants = fitted([other != chip for other in chips])
        own = errors(*constants)[[other == chip for other in chips]]
        found.append(LeftOut(chip=chip, constants=constants, errors=own))
    return found


def shipped() -> FloatArray:
    return errors(TPU_CALIBRATION.tensor_frac, SHOWN_FRAC)


def main() -> None:
    own = shipped()
    print(f"as shipped: {np.abs(own).mean() * PERCENT:.1f} % of {len(own)} runs, bias {own.mean() * PERCENT:+.1f} %")
    everything = fitted([True] * len(own))
    print(f"fitted on all: tensor_frac {everything[0]:g}, shown {everything[1]:g}")
    parts = left_out()
    for one in parts:
        error = np.abs(one.errors).mean() * PERCENT
        words = f"tensor_frac {one.constants[0]:g}, shown {one.constants[1]:g}"
        print(f"  without {one.chip} ({len(one.errors)} runs): {error:.1f} % there; {words}")
    together = np.concatenate([one.errors for one in parts])
    spread = np.sqrt(np.square(np.log1p(together)).mean())
    print(f"left out: {np.abs(together).mean() * PERCENT:.1f} %, root mean square of logs {spread:.3f}")


if __name__ == "__main__":
    main()
