"""How likely a plan fits: our error of memory on runs that were measured, by training framework.

The error of a run is the logarithm of what it took over what we say. Each publisher counts once, however many rows it
has, since its rows share what they have in common. A framework with rows of its own is judged by these, drawn towards
all publishers by as many rows as `NUM_PRIOR`; one without is judged by all publishers, which is wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from dovetail.accuracy.evidence import CONFIDENCE_FRAC
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip

NUM_PRIOR = 10  # rows that the spread of all publishers counts as beside a framework's own: an estimate
FIT_PROBABILITY = 0.95  # that a plan fits, at the least, where a user names none
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvidence:
    """Errors of one publisher's rows: how many, their mean and their standard deviation."""

    publisher: str
    frameworks: tuple[str, ...]  # whose buffers these runs had; none where they had no framework of the catalogue
    num_rows: int
    mean: float
    sd: float


# benchmarks/bar_frameworks.py computes them again from the shipped rows, and a test compares.
EVIDENCE = (
    MemoryEvidence(publisher="pytorch/torchtitan", frameworks=("torchtitan",), num_rows=14, mean=0.0145, sd=0.0513),
    MemoryEvidence(
        publisher="Zero", frameworks=("megatron-lm", "megatron-bridge"), num_rows=9, mean=-0.0067, sd=0.0133
    ),
    MemoryEvidence(
        publisher="MooreThreads/SimuMax",
        frameworks=("megatron-lm", "megatron-bridge"),
        num_rows=54,
        mean=-0.0050,
        sd=0.0127,
    ),
    MemoryEvidence(publisher="BigScience", frameworks=("deepspeed",), num_rows=56, mean=-0.0116, sd=0.0375),
    MemoryEvidence(publisher="H200", frameworks=(), num_rows=17, mean=0.0099, sd=0.0064),
    # hf_steps.csv, transformers of 19 GiB and more: reserved over peak, beside the 1.05 that is counted
    MemoryEvidence(publisher="hf_steps", frameworks=("fsdp2",), num_rows=17, mean=0.0197, sd=0.0602),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpread:
    """A normal distribution of the error: mean and standard deviation of the logarithm, and rows of the framework."""

    mean: float
    sd: float
    num_rows: int

    def fit_probability(self, need_bytes: float, visible_bytes: float) -> float:
        """How likely a run that we say needs `need_bytes` finds room in `visible_bytes`."""
        return _NORMAL.cdf((math.log(visible_bytes / need_bytes) - self.mean) / self.sd) if need_bytes > 0 else 1.0

    def headroom_frac(self, probability: float) -> float:
        """The share of memory to leave free, so that a plan which fills the rest fits as likely as that."""
        return max(0.0, 1.0 - math.exp(-(self.mean + _NORMAL.inv_cdf(probability) * self.sd)))

    def interval_frac(self, frac: float) -> tuple[float, float]:
        """What a run took over what we say, from the least to the most that this share of runs lies between."""
        reach = _NORMAL.inv_cdf((1.0 + frac) / 2.0) * self.sd
        return math.exp(self.mean - reach), math.exp(self.mean + reach)


def spread_of_all(evidence: tuple[MemoryEvidence, ...] = EVIDENCE) -> MemorySpread:
    """The error of a run by nobody in particular: spread within publishers and between them."""
    mean = sum(one.mean for one in evidence) / len(evidence)
    between = sum((one.mean - mean) ** 2 for one in evidence) / len(evidence)
    within = sum(one.sd**2 for one in evidence) / len(evidence)
    return MemorySpread(mean=mean, sd=math.sqrt(within + between), num_rows=0)


def memory_spread(framework: str, evidence: tuple[MemoryEvidence, ...] = EVIDENCE) -> MemorySpread:
    """The error of a run by `framework`."""
    everyone = spread_of_all(evidence)
    own = [one for one in evidence if framework in one.frameworks]
    num_rows = sum(one.num_rows for one in own)
    weight = num_rows + NUM_PRIOR
    mean = (sum(one.num_rows * one.mean for one in own) + NUM_PRIOR * everyone.mean) / weight
    squares = sum(one.num_rows * (one.sd**2 + (one.mean - mean) ** 2) for one in own)
    return MemorySpread(mean=mean, sd=math.sqrt((squares + NUM_PRIOR * everyone.sd**2) / weight), num_rows=num_rows)


def fit_probability(need_bytes: float, visible_bytes: float, framework: str) -> float:
    """How likely a plan fits that needs `need_bytes` of `visible_bytes`, with the buffers of `framework`."""
    return memory_spread(framework).fit_probability(need_bytes, visible_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoom:
    """What a device has, what a plan may take of it, what it needs, and how likely that fits.

    Interval and probability are of one distribution: a plan fits with (1 + CONFIDENCE_FRAC) / 2 or more exactly where
    `upper_bytes` is at most `visible_bytes`.
    """

    capacity_bytes: float  # HBM
    visible_bytes: float  # what the framework sees of it: driver and ECC have the rest
    usable_bytes: float  # what a plan may take: what is visible, less what is kept free
    kept_free_for: str  # why that is
    need_bytes: float  # allocator, context and communicators counted
    lower_bytes: float  # of nine in ten runs
    upper_bytes: float
    fit_probability: float

    @property
    def kept_free_frac(self) -> float:
        return 1.0 - self.usable_bytes / self.visible_bytes

    @property
    def kept_free_bytes(self) -> float:
        return self.visible_bytes - self.usable_bytes

    @property
    def driver_bytes(self) -> float:
        return self.capacity_bytes - self.visible_bytes


def memory_room(need_bytes: float, usable_bytes: float, chip: Chip, framework: str) -> MemoryRoom:
    """Of a device that needs `need_bytes` of a chip and may take `usable_bytes`, with the buffers of `framework`."""
    spread = memory_spread(framework)
    low, high = spread.interval_frac(CONFIDENCE_FRAC)
    return MemoryRoom(
        capacity_bytes=chip.hbm.capacity_bytes,
        visible_bytes=chip.visible_bytes,
        usable_bytes=usable_bytes,
        kept_free_for=chip.headroom_reason,
        need_bytes=need_bytes,
        lower_bytes=low * need_bytes,
        upper_bytes=high * need_bytes,
        fit_probability=spread.fit_probability(need_bytes, chip.visible_bytes),
    )


def check_probability(probability: float) -> float:
    """`probability`, where plans can be chosen by it."""
    if not 0.5 <= probability <= 0.999:
        raise InvalidInput(f"--fit-probability must be from 0.5 to 0.999; got {probability:g}", "fit_probability")
    return probability
