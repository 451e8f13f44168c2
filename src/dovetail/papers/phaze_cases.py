"""PHAZE's eight models with their experts' placements, and the two sets of terms that they are compared on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.parallel.recipes import plans
from dovetail.units import GIBI, MEGA
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NUM_DEVICES = 1024  # PHAZE, released code (MIT, commit fed7cde)
GLOBAL_BATCH = 4096  # sequences; the same
MICROBATCHES = (1, 2, 4, 8)
TENSOR_PARALLEL = (1, 2, 4, 8)
HBM_BYTES = tuple(gibibytes * GIBI for gibibytes in (32, 64, 80))
NO_OVERLAP = Overlap(data=False, tensor=False, context=False, expert=False, pipeline=False)
NO_LIMIT_W = 1 * MEGA  # more than any chip draws


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a comparison takes for granted beside chip and network.

    `is_published`: what PHAZE's paper and code assume, as far as our model can express it: its own kinds of plan, with
    everything else about a plan as PHAZE has it.
    """

    name: str
    is_published: bool
    has_power_limit: bool
    attention: str
    precision: Precision
    recompute: tuple[str, ...] = RECOMPUTE_POLICIES
    overlap: Overlap = field(default_factory=Overlap)


PUBLISHED = Terms(
    name="published",
    is_published=True,
    has_power_limit=False,
    attention="unfused",  # its graphs are traced from eager code
    precision=Precision(optimizer="sgd", has_momentum=False, gradients="bf16", has_master_weights=False),  # 4 bytes
    recompute=("none", "full"),
    overlap=NO_OVERLAP,
)
CALIBRATED = Terms(
    name="calibrated", is_published=False, has_power_limit=True, attention="flash", precision=Precision()
)
TERMS = (PUBLISHED, CALIBRATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model of PHAZE's, and the name of its experts' placement."""

    name: str  # as PHAZE has it
    model: str
    seq: int
    expert: str

    @property
    def expert_plan(self) -> Plan:
        return plans[self.expert].plan

    def workload(self, terms: Terms, num_copies: int = 1) -> Workload:
        """A step over 4096 sequences, or over the most below that `num_copies` pipelines share evenly."""
        return Workload(
            model=models[self.model](),
            global_batch=GLOBAL_BATCH // num_copies * num_copies,
            seq=self.seq,
            attention=terms.attention,
            precision=terms.precision,
        )


CASES = (
    Case(name="OPT-350M", model="opt-350m", seq=2048, expert="phaze-opt-350m"),
    Case(name="BERT-large", model="bert-large", seq=512, expert="phaze-bert-large"),
    Case(name="GPT2-XL", model="gpt2-1.5b", seq=1024, expert="phaze-gpt2-xl"),
    Case(name="Llama2-7B", model="llama2-7b", seq=4096, expert="phaze-llama2-7b"),
    Case(name="Megatron-BERT", model="megatron-bert-336m", seq=512, expert="phaze-megatron-bert"),
    Case(name="GPT2 2.5B", model="gpt2-2.5b", seq=1024, expert="phaze-gpt2-2.5b"),
    Case(name="GPT2 8.3B", model="gpt2-8.3b", seq=1024, expert="phaze-gpt2-8.3b"),
    Case(name="GPT3-175B", model="gpt3-175b", seq=2048, expert="phaze-gpt3-175b"),
)


def cluster_of(chip: Chip, terms: Terms, num_devices: int = NUM_DEVICES) -> Cluster:
    """PHAZE's flat network of such chips, with or without their power limit; its plans may fill all of HBM."""
    on_terms = chip if terms.has_power_limit else replace(chip, tdp_w=NO_LIMIT_W)
    return replace(clusters["phaze-flat-1024"].build(num_devices), chip=on_terms).with_headroom(0.0)
