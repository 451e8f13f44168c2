"""A chip is rated for what it can do at once: no schedule of its own draws more at any moment."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.costs import op_costs
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.opsched.fast import list_schedule
from dovetail.opsched.problem import TENSOR, VECTOR
from dovetail.opsched.work import Work, core_problem
from dovetail.parallel.plan import Plan
from dovetail.search.designs import Limits, design_at, design_space, mined_chips, silicon_of
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import base_answer, question_of
from dovetail.search.mining.score import works_of
from dovetail.search.mining.task import Task
from dovetail.workload.models import models
from dovetail.workload.operators import Unit
from dovetail.workload.workload import Workload

SPACE = design_space(sides=(32, 64, 128, 256), lanes=(128, 256), counts=(1, 2, 4, 8, 16))
WIDE = Limits(area_mm2=5000.0, power_w=5000.0)
BASES = ("tpuv2-like", "tpuv4-like", "tpu-v4", "tpu-v5e")
JOBS = (
    ("bert-base", 4, 512, Plan(microbatch=4)),
    ("resnet-18", 8, 1, Plan(microbatch=8)),
    ("gpt2-345m", 2, 1024, Plan(tensor_parallel=2, microbatch=2)),
)
ROUNDING = 1e-9


@cache
def works(place: int, base: str) -> list[Work]:
    name, batch, seq, plan = JOBS[place]
    task = Task(workload=Workload(model=models[name](), global_batch=batch, seq=seq), plan=plan)
    metric = metrics["throughput"]
    chip = chips[base]()
    return works_of(question_of([task], chip, SPACE, WIDE, metric, base_answer([task], chip, metric)).jobs[0])


def mined(base: str, seed: int) -> Chip:
    design = design_at(SPACE, SPACE.sample(Random(seed)))
    chip = chips[base]()
    return mined_chips(chip, [design], silicon_of(chip, [design]))[0]


def most_w(work: Work, chip: Chip) -> tuple[float, bool]:
    """The most that a schedule of `work` draws at any moment, and whether products and lanes ever run side by side."""
    schedule = list_schedule(core_problem(work, chip))
    problem, ends = schedule.problem, schedule.end_beats
    lasts_s = problem.modes.beats[schedule.mode] * problem.beat_s
    dynamic_j = op_costs(work.ops, chip).energy_j
    link_w = 2 * chip.interconnect_bytes_per_s * chip.energy.link_j_per_byte
    draws_w = np.where(work.ops.unit == Unit.NETWORK, link_w, dynamic_j / np.maximum(lasts_s, problem.beat_s))
    need = problem.modes.need[schedule.mode]
    most, is_both = chip.energy.idle_w, False
    for now in np.unique(schedule.start_beats):
        running = (schedule.start_beats <= now) & (now < ends)
        most = max(most, chip.energy.idle_w + float(draws_w[running].sum()))
        is_both |= bool((need[running][:, TENSOR] > 0).any() and (need[running][:, VECTOR] > 0).any())
    return most, is_both


@settings(max_examples=25, deadline=None)
@given(place=st.integers(0, len(JOBS) - 1), base=st.sampled_from(BASES), seed=st.integers(0, 2**20))
def test_a_design_is_rated_for_all_that_its_schedule_runs_at_once(place, base, seed):
    chip = mined(base, seed)
    for work in works(place, base):
        assert most_w(work, chip)[0] <= chip.tdp_w * (1 + ROUNDING)


def test_products_and_lanes_do_run_side_by_side():
    """Else the law above would hold of a rating by the hungrier of the two."""
    assert any(most_w(work, mined("tpuv4-like", seed))[1] for seed in range(5) for work in works(0, "tpuv4-like"))


@pytest.mark.parametrize("base", BASES)
def test_a_rating_is_not_far_above_what_is_ever_drawn(base):
    designs = [mined(base, seed) for seed in range(3)]
    assert max(most_w(work, chip)[0] / chip.tdp_w for chip in designs for work in works(0, base)) > 0.5
