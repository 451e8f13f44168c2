"""FLOP utilisation of recorded code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.step.code_flop import code_mfu_frac
from dovetail.step.distributed import distributed_step
from tests.unit.step.test_distributed import CLUSTER, QUICK, job, product

SIDE = 8192
PEAK_FLOP_PER_S = CLUSTER.chip.peak_flop_per_s("bf16")


def test_recompute_and_the_update_are_none_of_the_models_flop() -> None:
    forward, again = product(), product(phase="backward")
    once = job((forward, replace(again, module="other"), product(phase="optimizer")))
    outcome = distributed_step(once, CLUSTER, QUICK)
    flop = 2 * 2 * SIDE**3
    assert code_mfu_frac(outcome, CLUSTER.chip, "bf16") == pytest.approx(flop / (outcome.step_s * PEAK_FLOP_PER_S))
    [rank] = job((forward, again)).ranks
    checkpointed = replace(once, ranks=(replace(rank, step=replace(rank.step, module_calls=(1, 1))),))
    outcome = distributed_step(checkpointed, CLUSTER, QUICK)
    assert code_mfu_frac(outcome, CLUSTER.chip, "bf16") == pytest.approx(
        2 * SIDE**3 / (outcome.step_s * PEAK_FLOP_PER_S)
    )


def test_a_dtype_without_a_rate_has_no_utilisation() -> None:
    assert code_mfu_frac(distributed_step(job((product(),)), CLUSTER, QUICK), CLUSTER.chip, "fp64") == 0.0
