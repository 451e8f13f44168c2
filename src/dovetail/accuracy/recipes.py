"""The published run most like a job: what others ran, by which plan, how fast it was, and how far off we are on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dovetail.accuracy.evidence import Class, class_of
from dovetail.accuracy.residuals import Residual
from dovetail.accuracy.runs.jobs import PublishedRun
from dovetail.accuracy.runs.row import Row
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.units import GIGA
from dovetail.workload.layers import Sample
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

MAX_SIZE_DOUBLINGS = 1.0  # of parameters, between a job and a run that is near it
MAX_DISTANCE = 4.0  # in doublings; see `_recipes`
DEVICES_WEIGHT, SEQ_WEIGHT = 0.5, 0.5  # of a doubling, beside one of parameters
OTHER_PRECISION, OTHER_CHIP = 1.0, 0.5  # products in another dtype; another chip of the same generation


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A row of a published table, and what reads it as a run."""

    row: Row
    run_of: Callable[[Row], PublishedRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A published run near a job, how far from it, and its step as measured and as we predict it."""

    run: PublishedRun
    publisher: str
    source: str
    num_parameters: float
    distance: float
    predicted_s: float

    @property
    def error_frac(self) -> float:
        return self.predicted_s / self.run.measured_s - 1.0

    @property
    def tokens_per_s_per_device(self) -> float:
        sample = self.run.sample
        return sample.batch * sample.seq / self.run.measured_s / self.run.cluster.num_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Runs that are near, the nearest first; else why none is."""

    recipes: tuple[Recipe, ...] = ()
    refusal: str = ""


NOTHING_NEAR = Near()


def near_recipes(
    workload: Workload, cluster: AnyCluster, rows: Mapping[str, PublishedRow], residuals: Sequence[Residual]
) -> Near:
    """Of published runs, by name in `rows`, those near that have an error in `residuals`; of equals the fastest first.

    The one order of runs by nearness: the first is the nearest run, wherever one is named.
    """
    job = class_of(workload, cluster, Plan())
    if not job.is_transformer:
        return Near(refusal=f"no published run that ships is of a {job.family or 'like'} model")
    if workload.lora.is_used:
        return Near(refusal="no published run that ships trains adapters alone")
    alike = [one for one in residuals if one.name in rows and _is_alike(one, job)]
    if not alike:
        kind = "mixtures of experts" if job.is_mixture else "dense models"
        return Near(refusal=f"no published run that ships is of {kind} on chips like {job.chip}")
    num_wanted = float(workload.forward_graph().num_parameters)
    found = [
        recipe
        for one in alike
        for recipe in _recipes(one, rows[one.name], workload, cluster.num_devices, job.chip, num_wanted)
    ]
    if not found:
        within = f"within a factor of {2**MAX_SIZE_DOUBLINGS:g} of its parameters and {MAX_DISTANCE:g} doublings in all"
        return Near(refusal=f"of {len(alike):,} published runs on such chips none is near: {within}")
    order = sorted(found, key=lambda one: (one.distance, -one.tokens_per_s_per_device, one.run.name))
    return Near(recipes=tuple(order))


def _is_alike(one: Residual, job: Class) -> bool:
    """Whether a run is of chips of the same generation, and as dense."""
    return one.is_mixture == job.is_mixture and bool(job.generation) and one.generation == job.generation


def _recipes(
    one: Residual, published: PublishedRow, workload: Workload, num_devices: int, chip: str, num_wanted: float
) -> tuple[Recipe, ...]:
    """The run of a row, where it is near: doublings of parameters, and less of what else tells it from the job."""
    row = published.row
    stated = row.number("params_b") * GIGA
    rest = (
        DEVICES_WEIGHT * _doublings(one.num_devices, num_devices)
        + SEQ_WEIGHT * _doublings(row.count("seq"), workload.seq)
        + OTHER_PRECISION * (one.precision != workload.precision.compute)
        + OTHER_CHIP * (one.chip != chip)
    )
    # what a row states is rounded, or of a whole model that was cut: a first look
    if rest > MAX_DISTANCE or (stated and stated < num_wanted / 2 ** (1 + MAX_SIZE_DOUBLINGS)):
        return ()
    run = published.run_of(row)
    num_parameters = _num_parameters(run.model)
    doublings = _doublings(num_parameters, num_wanted)
    if doublings > MAX_SIZE_DOUBLINGS or rest + doublings > MAX_DISTANCE:
        return ()
    return (
        Recipe(
            run=run,
            publisher=one.publisher,
            source=row.word("source"),
            num_parameters=num_parameters,
            distance=rest + doublings,
            predicted_s=run.measured_s / math.exp(one.log_ratio),
        ),
    )


def _doublings(one: float, other: float) -> float:
    return abs(math.log2(one / other))


@lru_cache(maxsize=256)
def _num_parameters(model: Transformer) -> float:
    return float(model.forward(Sample(batch=1, seq=model.num_positions or 1, dtype="bf16")).num_parameters)
