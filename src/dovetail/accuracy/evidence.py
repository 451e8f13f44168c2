"""How sure a prediction is: an interval from the errors on published runs most like it, and words for which these are.

Split conformal prediction (Vovk et al. 2005; Lei et al. 2018) on |log(measured / predicted)|: a new run of the class
falls inside with the chance asked for, whatever the errors' distribution, as far as it is drawn like the class.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dovetail.accuracy.residuals import GENERATIONS, TPU, Residual, generation
from dovetail.hardware.cluster import OwnRuns
from dovetail.hardware.heterogeneous import AnyCluster, chip_names, chips_of
from dovetail.parallel.plan import Plan
from dovetail.units import format_rounded_s
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

CONFIDENCE_FRAC = 0.90
MIN_ROWS = 15  # of a class; fewer hardly say where a tenth of errors begins
MIN_PUBLISHERS = 2.0  # of a class, were all of equal weight: runs of one publisher share software, and so their error
SCALE_FACTOR = 4  # devices of a like run: at most so many times more or fewer
MIN_OWN_RUNS = 5  # of the user's; fewer do not say how far apart runs are
ROUNDING = 1e-9  # style: a tolerance; sums of weights that say the same
RUN_SCHEDULES = ("1f1b", "interleaved")  # of published runs with a pipeline, as accuracy/runs/jobs.py reads them
NUM_NAMED = 3  # publishers that a sentence names
WELL_KNOWN_FRAC = 0.05  # half an interval up to which a third digit is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What having been chosen does to a prediction: the least of many is likely one that is predicted too short.

    `num_near` predictions, itself among them, lie within the error of a pair; the upper end of the interval of the
    one chosen is longer by `shift_frac`.
    """

    num_near: int
    shift_frac: float


GIVEN = Selection(num_near=1, shift_frac=0.0)  # of a plan that no search has chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where the seconds of a step lie in nine of ten runs of the class, and what says so.

    Of a plan that a search chose, `upper_s` is widened for the choice; `given_upper_s` is that of the same plan,
    had it been given.
    """

    lower_s: float
    upper_s: float
    num_rows: int
    evidence: str
    lacking: str = ""  # in what no published run is like the job
    selection: Selection = GIVEN

    @property
    def sentence(self) -> str:
        return f"{CONFIDENCE_FRAC:.0%} interval {self.bounds}, {self.grounds}".replace("%", " %", 1)

    @property
    def bounds(self) -> str:
        return format_bounds(self.lower_s, self.upper_s)

    @property
    def given_upper_s(self) -> float:
        return self.upper_s / (1 + self.selection.shift_frac)

    @property
    def grounds(self) -> str:
        """What the interval covers, and what it rests on."""
        return "; ".join(filter(None, (self.covers, self.evidence)))

    @property
    def covers(self) -> str:
        """That it is widened for the choice of the plan; empty where none was made."""
        num_near = self.selection.num_near
        return f"widened for the choice among {num_near:,} close plans" if num_near > 1 else ""


def format_bounds(lower_s: float, upper_s: float) -> str:
    """The ends of an interval, to the digits that are known: three where it is narrow, else two."""
    num_digits = 3 if upper_s <= (1 + WELL_KNOWN_FRAC) ** 2 * lower_s else 2
    lower, upper = (format_rounded_s(end_s, num_digits) for end_s in (lower_s, upper_s))
    same_unit = lower.rpartition(" ")[2] == upper.rpartition(" ")[2]
    return f"{lower.rpartition(' ')[0] if same_unit else lower} to {upper}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """What of a job decides which runs are like it."""

    chip: str
    num_devices: int
    is_transformer: bool
    is_mixture: bool
    has_pipeline: bool
    family: str = ""
    schedule: str = "1f1b"
    is_adapted: bool = False  # low-rank adapters are trained, and nothing else
    chip_family: str = ""  # that all its chips are calibrated by; empty where they are of several

    @property
    def generation(self) -> str:
        """By the name of its chip; a chip of another name is of the generation that its family is all of."""
        return generation(self.chip) or GENERATIONS.get(self.chip_family, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The runs most like a job, and how far they were off: nine of ten, or the share that was asked for, by less than a
    factor of exp(`half_width`).
    """

    rows: tuple[Residual, ...]
    half_width: float
    words: str
    near_half_width: float  # of the runs nearest to the job, where those of its interval are other ones
    lacking: str = ""  # in what no published run is like the job


def interval_of(
    workload: Workload,
    cluster: AnyCluster,
    plan: Plan,
    step_s: float,
    rows: Sequence[Residual],
    selection: Selection = GIVEN,
) -> Interval:
    """The interval around the prediction `step_s`: from own runs where there are enough, else from published `rows`.

    `selection` is what the plan was chosen among, where a search chose it.
    """
    own = cluster.own_runs
    if own.num_runs >= MIN_OWN_RUNS:
        return _around(step_s, own_half_width(own), own.num_runs, _own_runs_label(own), selection)
    found = evidence(class_of(workload, cluster, plan), rows)
    interval = _around(step_s, found.half_width, len(found.rows), found.words, selection)
    return replace(interval, lacking=found.lacking)


def _around(step_s: float, half_width: float, num_rows: int, words: str, selection: Selection) -> Interval:
    factor = math.exp(half_width)
    return Interval(
        lower_s=step_s / factor,
        upper_s=step_s * factor * (1 + selection.shift_frac),
        num_rows=num_rows,
        evidence=words,
        selection=selection,
    )


def upper_factor(
    workload: Workload, cluster: AnyCluster, plan: Plan, rows: Sequence[Residual], quantile_frac: float
) -> float:
    """What a predicted time is multiplied by for a quantile of the true one: 1 at the median.

    Errors are as far to one side as to the other, as in the interval: between `quantile_frac` and as far below the
    median lie 2 x `quantile_frac` - 1 of runs.
    """
    coverage_frac = 2 * quantile_frac - 1
    if coverage_frac <= 0:
        return 1.0
    own = cluster.own_runs
    if own.num_runs >= MIN_OWN_RUNS:
        return math.exp(own_half_width(own, coverage_frac))
    return math.exp(evidence(class_of(workload, cluster, plan), rows, coverage_frac).half_width)


def spread_frac(workload: Workload, cluster: AnyCluster, plan: Plan, rows: Sequence[Residual]) -> float:
    """The standard deviation of a log-normal error of which nine in ten are within that of the nearest runs.

    What two chips of one family have in common: it is not widened where there is no evidence of their class.
    """
    return standard_deviation(evidence(class_of(workload, cluster, plan), rows).near_half_width)


def standard_deviation(width: float) -> float:
    """Of a normal distribution nine tenths of which lie within `width` of its mean."""
    return width / NormalDist().inv_cdf((1 + CONFIDENCE_FRAC) / 2)


def class_of(workload: Workload, cluster: AnyCluster, plan: Plan) -> Class:
    architecture = workload.model.architecture
    is_transformer = isinstance(architecture, Transformer)
    chip_families = {chip.calibration.family for chip in chips_of(cluster)}
    return Class(
        chip=chip_names(cluster),
        num_devices=cluster.num_devices,
        is_transformer=is_transformer,
        is_mixture=isinstance(architecture, Transformer) and architecture.experts is not None,
        has_pipeline=plan.pipeline_parallel > 1,
        family=workload.model.family,
        schedule=plan.schedule,
        is_adapted=workload.lora.is_used,
        chip_family=chip_families.pop() if len(chip_families) == 1 else "",
    )


def class_of_row(row: Residual) -> Class:
    return Class(
        chip=row.chip,
        num_devices=row.num_devices,
        is_transformer=True,
        is_mixture=row.is_mixture,
        has_pipeline=row.pipeline_parallel > 1,
    )


def evidence(job: Class, rows: Sequence[Residual], coverage_frac: float = CONFIDENCE_FRAC) -> Evidence:
    """The narrowest class of `rows` that `job` is in and that has enough of them, and how far off these were.

    Where that is not the job's own class, for none is published or too few are, it is the class with the widest
    interval instead, if that is wider: a job without evidence never has a narrower interval than one with it.
    """
    assert rows, "an interval needs residuals"
    every = tuple(rows)
    is_tpu = job.generation == GENERATIONS[TPU]
    rows = tuple(row for row in every if (row.generation == GENERATIONS[TPU]) == is_tpu) or every
    found = next(_classes(job, rows), RunClass(rows=rows))
    lacking = _lacking(job, rows)
    caution = _caution(job, lacking, found)
    near_half_width = half_width(found.rows, coverage_frac)
    if caution:
        widest = widest_class(every, coverage_frac)
        if widest and half_width(widest.rows, coverage_frac) > near_half_width:
            found, caution = widest, f"{caution}as wide as the widest class with evidence, "
    return Evidence(
        rows=found.rows,
        half_width=half_width(found.rows, coverage_frac),
        near_half_width=near_half_width,
        words=f"{caution}{_words(found)}",
        lacking=lacking,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClass:
    """Published runs that are alike, and words for their models and for what else they share.

    `is_own`: of one generation of chips and one kind of model; the others hold runs that are unlike each other.
    """

    rows: tuple[Residual, ...]
    models: str = "transformers"
    shared: str = ""
    is_own: bool = False


def _classes(job: Class, rows: Sequence[Residual]) -> Iterator[RunClass]:
    """Classes of runs around `job` that have enough of them, narrowest first."""
    if not job.is_transformer:
        return
    kind = tuple(row for row in rows if row.is_mixture == job.is_mixture)
    same = tuple(row for row in kind if job.generation and row.generation == job.generation)
    yield from _own_classes(same, (job.num_devices,), has_pipeline=job.has_pipeline)
    if len(kind) >= MIN_ROWS:
        yield RunClass(rows=kind, models=_model_label(kind[0]))


def _own_classes(same: Sequence[Residual], num_devices: Sequence[int], *, has_pipeline: bool) -> Iterator[RunClass]:
    """Of runs of one generation and kind of model: those near jobs of so many devices, of any number, and all."""
    shared = f"with{'' if has_pipeline else 'out'} pipeline parallelism"
    cut = tuple(row for row in same if (row.pipeline_parallel > 1) == has_pipeline)
    near = (tuple(row for row in cut if _is_near(row.num_devices, one)) for one in num_devices)
    for chosen, words in (*((one, shared) for one in near), (cut, shared), (tuple(same), "")):
        if len(chosen) >= MIN_ROWS and num_publishers(chosen) >= MIN_PUBLISHERS:
            yield RunClass(rows=chosen, models=_model_label(chosen[0]), shared=words, is_own=True)


@lru_cache(maxsize=64)
def widest_class(rows: tuple[Residual, ...], coverage_frac: float = CONFIDENCE_FRAC) -> RunClass | None:
    """Of all classes of `rows` that a job could have evidence in, the one with the widest interval."""
    groups: dict[tuple[str, bool], list[Residual]] = {}
    for row in rows:
        groups.setdefault((row.generation, row.is_mixture), []).append(row)
    known = [group for (name, _), group in sorted(groups.items()) if name]
    found = (
        one
        for group in known
        for has_pipeline in (False, True)
        for one in _own_classes(group, _steps_of(group, rows), has_pipeline=has_pipeline)
    )
    return max(found, key=lambda one: half_width(one.rows, coverage_frac), default=None)


def _steps_of(group: Sequence[Residual], rows: Sequence[Residual]) -> list[int]:
    """Numbers of devices, as `rows` have them, where a job comes to be near other runs of `group`."""
    sizes, published = {row.num_devices for row in group}, {row.num_devices for row in rows}
    least, most = min(published), max(published)
    begins = {-(-size // SCALE_FACTOR) for size in sizes} | {SCALE_FACTOR * size + 1 for size in sizes} | {least}
    return sorted(size for size in begins if least <= size <= most)


def _model_label(row: Residual) -> str:
    return "mixtures of experts" if row.is_mixture else "dense models"


def _is_near(one: int, other: int) -> bool:
    return max(one, other) <= SCALE_FACTOR * min(one, other)


def num_publishers(rows: Sequence[Residual]) -> float:
    """As many of equal weight as are as mixed as those of `rows` (the inverse of Simpson's index)."""
    weights = np.sqrt(list(Counter(row.publisher for row in rows).values()))
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def half_width(rows: Sequence[Residual], coverage_frac: float = CONFIDENCE_FRAC) -> float:
    """Of |log(measured / predicted)|, what `coverage_frac` of new runs stay below: nine of ten.

    A publisher's n rows count as the square root of n: they are not independent, and it is another who asks. The run
    to come counts as one more row that may lie anywhere, which widens the interval of a small class.
    """
    sizes = Counter(row.publisher for row in rows)
    weights = np.array([sizes[row.publisher] ** -0.5 for row in rows])
    errors = np.abs([row.log_ratio for row in rows])
    order = np.argsort(errors, kind="stable")
    below = np.cumsum(weights[order]) / (weights.sum() + weights.mean())
    place = min(int(np.searchsorted(below, coverage_frac - ROUNDING)), len(rows) - 1)
    return float(errors[order[place]])


def _words(found: RunClass) -> str:
    chips = sorted({row.chip.partition("-")[0].upper() for row in found.rows})
    sizes = [row.num_devices for row in found.rows]
    parts = [
        f"from {len(found.rows):,} published runs of {found.models} on {_listed(chips)}",
        f"{_range(min(sizes), max(sizes))} devices",
        *([found.shared] if found.shared else []),
    ]
    return f"{', '.join(parts)} ({_named(found.rows)})"


def _range(least: int, most: int) -> str:
    return f"{least:,} to {most:,}" if most > least else f"{least:,}"


def _caution(job: Class, lacking: str, found: RunClass) -> str:
    """Words before evidence that is not of the job's class; none where it is."""
    if lacking:
        return f"without evidence of its class ({lacking}): "
    if not found.is_own:
        return f"with little evidence of its class (too few publishers have runs like it on {job.chip}): "
    return ""


def _lacking(job: Class, rows: Sequence[Residual]) -> str:
    """In what no published run is like the job."""
    sizes = [row.num_devices for row in rows]
    reasons = []
    if not job.is_transformer:
        reasons.append(f"no published run is of a {job.family or 'like'} model")
    if job.is_adapted:
        reasons.append("no published run trains adapters alone")
    if not job.generation or all(row.generation != job.generation for row in rows):
        reasons.append(f"no published run is on {job.chip}")
    if job.has_pipeline and job.schedule not in RUN_SCHEDULES:
        reasons.append(f"no published run uses the schedule {job.schedule}, all use 1F1B")
    if not min(sizes) <= job.num_devices <= max(sizes):
        bound = f"fewer than {min(sizes):,}" if job.num_devices < min(sizes) else f"more than {max(sizes):,}"
        reasons.append(f"no published run is on {bound} devices")
    return ", ".join(reasons)


def _named(rows: Sequence[Residual]) -> str:
    """Publishers, those of most rows first."""
    names = [name for name, _ in sorted(Counter(row.publisher for row in rows).items(), key=lambda n: (-n[1], n[0]))]
    return ", ".join(names[:NUM_NAMED]) + (", ..." if len(names) > NUM_NAMED else "")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def own_half_width(own: OwnRuns, coverage_frac: float = CONFIDENCE_FRAC) -> float:
    """Student's t interval of one more run, in logarithms, from the spread of errors on runs left out in turn."""
    return student_t(coverage_frac, own.num_runs - own.num_scales) * own.spread_frac


def _own_runs_label(own: OwnRuns) -> str:
    return f"from {own.num_runs:,} runs on this cluster ({own.fitted_on})"


def student_t(confidence_frac: float, degrees: int) -> float:
    """Two-sided quantile of Student's t (Abramowitz & Stegun 26.7.5): at 90 %, 0.3 % off with 3 degrees of freedom."""
    z = NormalDist().inv_cdf((1 + confidence_frac) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / float(degrees) ** power for power, term in enumerate(terms, start=1))
