"""What is timed of chips: a layer scheduled on many, and PHAZE's whole space searched together with plans."""

from __future__ import annotations

from dataclasses import replace

from dovetail.api.timed.operation import Operation, Run, warm
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import template_tensor, template_vector
from dovetail.opsched.batch import scheduled
from dovetail.opsched.work import Work, chip_batch, work_of
from dovetail.papers.phaze_cases import CASES, TERMS
from dovetail.papers.phaze_joint import question_of
from dovetail.search.codesign.joint import JointFound, joint_search, local_backend
from dovetail.search.codesign.question import JointQuestion, system_space
from dovetail.search.codesign.scoring import Scorer
from dovetail.workload.models import models
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload

LAYER_MODEL, NUM_SAMPLES = "bert-large", 4
MODEL, TERMS_NAME = "llama2-7b", "published"
FEW = {  # so that every system can be scored
    "num_tensor": (1, 4, 16),
    "num_rows": (64, 128, 256),
    "num_cols": (64, 128, 256),
    "num_vector": (2, 16, 64),
    "num_lanes": (64, 128, 256),
    "sram_mib": (2, 32, 128),
    "stack_gib": (8, 16, 20),
}


def layer_work() -> Work:
    """A layer of BERT-large: forward, backward and update in one."""
    model = models[LAYER_MODEL]()
    workload = Workload(model=model, global_batch=NUM_SAMPLES, seq=model.seq)
    layer = max(workload.training_graph().blocks, key=lambda block: block.is_layer * block.repeat)
    return work_of(with_recompute(layer.ops, "none"), workload.precision)


def template_chips() -> list[Chip]:
    """Chips of the TPUv2-like template, of few and many cores, small and large."""
    base = chips["tpuv2-like"]()
    return [
        replace(
            base,
            tensor=template_tensor(num_tensor, rows, cols, base.clock_hz, ("bf16", "fp16")),
            vector=template_vector(num_vector, lanes, base.clock_hz),
        )
        for num_tensor in (1, 2, 4, 8, 16)
        for num_vector in (1, 2, 4, 8)
        for rows in (64, 128, 256)
        for cols in (64, 128)
        for lanes in (64, 128)
    ]


def _layer_schedule() -> Run:
    many = template_chips()
    batch = chip_batch(layer_work(), many)

    def run() -> float:
        scheduled(batch)
        return float(len(many))

    return warm(run)


def question(*, is_small: bool = False) -> JointQuestion:
    """Chip and plan for Llama 2 7B in PHAZE's space, or in a few hundred systems of its kind."""
    case = next(case for case in CASES if case.model == MODEL)
    whole = question_of(case, next(terms for terms in TERMS if terms.name == TERMS_NAME))
    return reduced(whole) if is_small else whole


def reduced(whole: JointQuestion) -> JointQuestion:
    """The same of a few hundred systems."""
    [num_devices] = (int(knob.values[0]) for knob in whole.space.knobs if knob.name == "num_devices")
    return replace(whole, space=system_space(whole.base, num_devices, FEW))


def searched(question: JointQuestion, *, is_exhaustive: bool = False) -> JointFound:
    scorer = Scorer(question)
    found = joint_search(scorer, local_backend(scorer), is_exhaustive=is_exhaustive)
    assert found is not None, question
    return found


def _codesign() -> Run:
    whole = question()
    searched(question(is_small=True))  # warm, by a small space

    def run() -> float:
        searched(whole)
        return 1.0

    return run


OPERATIONS = (
    Operation(
        name="layer-schedule",
        what="list schedule, BERT-large layer",
        made=_layer_schedule,
        needs="numba",
    ),
    Operation(name="codesign", what="best of 88,080 chips with plans", made=_codesign, num_runs=3),
)
