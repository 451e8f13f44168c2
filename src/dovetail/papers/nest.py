"""NEST's table of placements beside ours: the same five models, chip, network, batch and microbatch.

The manual placements, sequence lengths and recompute are those of NEST's released code (commit e8f1e6c), its results
those of the tables in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.papers.check import Check
from dovetail.papers.mappers import OURS, Mapper
from dovetail.papers.phaze import Found, fastest
from dovetail.papers.published_plans import best_plan, phaze_space
from dovetail.parallel.plan import AXES, RECOMPUTE_POLICIES, Plan
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

CLUSTER = "nest-fat-tree"
NUM_DEVICES = 1024
GLOBAL_BATCH = 4096
STAGES_INSIDE = ("tp", "cp", "pp", "dp")
SIXTEEN_BYTES = Precision(gradients="bf16")  # NEST, released code: 2 of weight, 2 of gradient, 12 of optimizer state


@dataclass(frozen=True, slots=True, kw_only=True)
class NestCase:
    """A model, NEST's manual placement of it, and throughputs over manual's at the smallest scale that it fits.

    `copies_at_least` is the data-parallel degree at that scale. Data-parallel degrees count the expert-parallel
    devices, which share a batch too.
    """

    name: str
    model: str
    seq: int
    num_stages: int
    num_copies: int
    copies_at_least: int
    manual: float  # style: a ratio of throughputs, as the next three
    mcmc: float
    phaze: float
    nest: float
    tensor_parallel: int = 1
    expert_parallel: int = 1
    recompute: str = "full"
    orders: tuple[tuple[str, ...], ...] = (AXES, STAGES_INSIDE)  # in which the degrees nest in nodes of eight

    @property
    def num_layers(self) -> int:
        shape = models[self.model]().architecture
        assert isinstance(shape, Transformer)
        return shape.num_layers

    @property
    def lopsided(self) -> tuple[int, ...]:
        """Layers by stage as the released code cuts them.

        It numbers layers again, so that the embedding is the first of them and the last stage gets the one left over.
        """
        each = self.num_layers // self.num_stages
        return (each - 1, *(each,) * (self.num_stages - 2), each + 1)

    @property
    def last_stage_ratio(self) -> float:
        """How much longer the last of those stages is than an equal share of the layers."""
        return self.lopsided[-1] * self.num_stages / self.num_layers

    @property
    def filled_ratio(self) -> float:
        """What equal stages of 1F1B gain from the smallest scale to this one, if nothing but their filling counts."""
        slots = [-(-GLOBAL_BATCH // copies) + self.num_stages - 1 for copies in (self.copies_at_least, self.num_copies)]
        return slots[0] / slots[1]

    def workload(self, num_copies: int = 1) -> Workload:
        """A step of 4096 sequences, or of the fewest above that `num_copies` pipelines share evenly, as NEST counts."""
        return Workload(
            model=models[self.model](),
            global_batch=-(-GLOBAL_BATCH // num_copies) * num_copies,
            seq=self.seq,
            precision=SIXTEEN_BYTES,
        )


CASES = (
    NestCase(
        name="BERT-large",
        model="megatron-bert-336m",
        seq=512,
        num_stages=8,
        num_copies=128,
        copies_at_least=8,
        recompute="none",
        manual=13.31,
        mcmc=16.61,
        phaze=21.61,
        nest=21.61,
    ),
    NestCase(
        name="Llama2-7B",
        model="llama2-7b",
        seq=4096,
        num_stages=8,
        num_copies=128,
        copies_at_least=8,
        manual=13.31,
        mcmc=12.97,
        phaze=14.42,
        nest=16.63,
    ),
    NestCase(
        name="Llama3-70B",
        model="llama3-70b",
        seq=4096,
        num_stages=80,
        num_copies=12,
        copies_at_least=1,
        orders=(STAGES_INSIDE,),
        manual=9.92,
        mcmc=9.92,
        phaze=19.06,
        nest=20.51,
    ),
    NestCase(
        name="Mixtral 8x7B",
        model="mixtral-8x7b",
        seq=4096,
        num_stages=32,
        num_copies=32,
        copies_at_least=4,
        expert_parallel=4,
        manual=6.63,
        mcmc=6.63,
        phaze=8.90,
        nest=13.35,
    ),
    NestCase(
        name="GPT3-175B",
        model="gpt3-175b",
        seq=2048,
        num_stages=32,
        num_copies=8,
        copies_at_least=1,
        tensor_parallel=4,
        manual=7.60,
        mcmc=8.70,
        phaze=9.03,
        nest=10.15,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NestRow:
    """One model: NEST's manual placement in our model, and our plans.

    `manual` has NEST's cut with one layer too many in the last stage, `even` has equal stages, `tuned` equal stages
    and the least recompute that fits. `smallest` is `manual` at the smallest scale. `in_phaze_space` is the best plan
    of the kinds that PHAZE knows, `ours` of all that we know, both with NEST's microbatch of 1; `free` of any.
    """

    case: NestCase
    smallest: Found
    manual: Found
    even: Found
    tuned: Found
    in_phaze_space: Found
    ours: Found
    free: Found

    @property
    def gain(self) -> float:
        return self.ours.sequences_per_s / self.manual.sequences_per_s

    @property
    def published_gain(self) -> float:
        return self.case.nest / self.case.manual

    @property
    def check(self) -> Check:
        return Check(what=self.case.name, ours=self.gain, paper=round(self.published_gain, 2), is_floor=True)

    def over_smallest(self, one: Found) -> float:
        """As NEST's table has it."""
        return one.sequences_per_s / self.smallest.sequences_per_s


def nest_study(cases: Sequence[NestCase] = CASES, mapper: Mapper = OURS) -> Iterator[NestRow]:
    """Every model, one after the other."""
    for case in cases:
        cluster, workload = cluster_of(NUM_DEVICES, mapper), case.workload()
        policies = RECOMPUTE_POLICIES[: RECOMPUTE_POLICIES.index(case.recompute) + 1]
        yield NestRow(
            case=case,
            smallest=manual_placement(case, case.copies_at_least, case.lopsided, (case.recompute,), mapper),
            manual=manual_placement(case, case.num_copies, case.lopsided, (case.recompute,), mapper),
            even=manual_placement(case, case.num_copies, (), (case.recompute,), mapper),
            tuned=manual_placement(case, case.num_copies, (), policies, mapper),
            in_phaze_space=_fitting(case, best_plan(workload, cluster, _phaze_plans(case))),
            ours=_fitting(case, best_plan(workload, cluster, PlanSpace(microbatch=(1,)))),
            free=_fitting(case, best_plan(workload, cluster, PlanSpace())),
        )


def _phaze_plans(case: NestCase) -> PlanSpace:
    """PHAZE's kinds of plan with a microbatch of 1, as NEST has it, and the experts' degree of `case`."""
    like = PlanSpace(microbatch=(1,), expert_parallel=(case.expert_parallel,))
    return phaze_space(tuple(dict.fromkeys(("none", case.recompute))), like)


def cluster_of(num_devices: int, mapper: Mapper = OURS) -> Cluster:
    """NEST's plans may fill HBM to the last byte."""
    built = clusters[CLUSTER].build(num_devices)
    return replace(built, chip=mapper.on(built.chip)).with_headroom(0.0)


def manual_placement(
    case: NestCase,
    num_copies: int,
    layers_per_stage: tuple[int, ...],
    policies: Sequence[str],
    mapper: Mapper = OURS,
) -> Found:
    """NEST's degrees with the best of `policies` and of the orders of axes, on as many devices as they take."""
    plan = Plan(
        pipeline_parallel=case.num_stages,
        data_parallel=num_copies,
        tensor_parallel=case.tensor_parallel,
        expert_parallel=case.expert_parallel,
        layers_per_stage=layers_per_stage,
    )
    tried = [replace(plan, recompute=(policy,), axis_order=order) for policy, order in product(policies, case.orders)]
    return _fitting(case, fastest(case.workload(num_copies), cluster_of(plan.num_devices, mapper), tried))


def _fitting(case: NestCase, one: Found | None) -> Found:
    assert one is not None, f"{case.name} fits by no plan"
    return one
