"""What WHAM trains and within which limits: its eleven models, and batches and cuts that are ours.

The paper's batches and cuts are not published. A batch is a power of two that fits the 16 GiB of a TPU v2; a model that
no single chip holds is cut into the fewest stages, with full recompute, of those that we tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.parallel.plan import Plan
from dovetail.search.designs import Limits
from dovetail.search.mining.task import Task
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

REAL = "tpu-v2"  # the part that WHAM's baseline stands for
BASE = "wham-tpuv2"  # whose memory, clock, links and node all designs have: 700 MHz, 700 GB/s, 16-bit words (WHAM)
LIMITS = Limits(area_mm2=606.68, power_w=280.0)  # WHAM's released constants: a TPU v2's die, and its TDP


@dataclass(frozen=True, slots=True, kw_only=True)
class WhamCase:
    """A model as it is trained: `batch` samples a step on the devices of `plan`, or all at once on one device."""

    model: str
    batch: int
    plan: Plan | None = None


FOUR_STAGES = Plan(pipeline_parallel=4, recompute=("full",))
LARGE = Plan(tensor_parallel=8, sequence_parallel=True, pipeline_parallel=48, recompute=("full",))
CASES = (
    WhamCase(model="mobilenet-v3-large", batch=32),  # WHAM's vision models; batch ours
    WhamCase(model="resnet-18", batch=32),  # WHAM's vision models; batch ours
    WhamCase(model="inception-v3", batch=32),  # WHAM's vision models; batch ours
    WhamCase(model="resnext-101-32x8d", batch=16),  # WHAM's ResNeXt-101, whose width we recall as 32x8d; batch ours
    WhamCase(model="vgg-16", batch=32),  # WHAM's vision models; batch ours
    WhamCase(model="gnmt", batch=64),  # WHAM's translation; batch ours, 50 positions
    WhamCase(model="bert-base", batch=16),  # WHAM's BERT; batch ours, positions those of the catalogue
    WhamCase(model="bert-large", batch=8),  # WHAM's BERT; batch ours, positions those of the catalogue
    WhamCase(model="opt-1.3b", batch=8, plan=FOUR_STAGES),  # WHAM's distributed training; batch and cut ours
    WhamCase(model="gpt2-1.5b", batch=8, plan=FOUR_STAGES),  # WHAM's GPT2-XL; batch and cut ours
    WhamCase(model="gpt3-175b", batch=64, plan=LARGE),  # WHAM's GPT-3; batch and cut ours, 384 devices
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperClaims:
    """What WHAM says of itself, as ratios."""

    least_gain: float = 1.12  # paper: throughput over hand-tuned TPU- and NVDLA-class chips
    most_gain: float = 1.23  # paper's summary: the same, at most
    over_inference: float = 12.0  # paper: throughput over designs searched for inference (Spotlight), on average
    most_per_watt: float = 8.1  # paper's summary: throughput/TDP, at most
    convergence: float = 31.0  # paper: less search time than Spotlight, on average
    most_convergence: float = 174.0  # paper's summary: the same, against the slowest baseline


PAPER = PaperClaims()
NAMES = tuple(case.model for case in CASES)


def tasks(names: Sequence[str] = NAMES) -> Iterator[Task]:
    """WHAM's models of these names, in its order."""
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"; choose of {', '.join(NAMES)}"
            raise InvalidInput(f"WHAM has no model named {name!r}{hint}", "--model")
    return (_task(case) for case in CASES if case.model in names)


def _task(case: WhamCase) -> Task:
    model = models[case.model]()
    workload = Workload(model=model, global_batch=case.batch, seq=model.seq)
    return Task(workload=workload, plan=case.plan or Plan(microbatch=case.batch))
