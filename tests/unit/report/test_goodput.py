"""Goodput as it is told: rows and data where failures are known, nothing where they are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dovetail.errors import NotModelled
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.reliability import (
    Checkpoints,
    CountedInterval,
    DeviceBandwidth,
    Failures,
    NotStated,
    Reliability,
    Replacement,
    SharedBandwidth,
    SlowDevices,
)
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.report.assumptions import assumptions
from dovetail.report.figures import Entry, FigureTable, entries_record, table_of
from dovetail.report.goodput import Budget, budget_rows, goodput_rows, price_rows, run_of, step_usd
from dovetail.step.goodput import Goodput
from dovetail.step.long_run import long_run
from dovetail.step.step import PlanSteps
from dovetail.units import GIGA, SECONDS_PER_DAY, SECONDS_PER_HOUR
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.report.conftest import record, tables

WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192)
PLAN = Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=8, zero_stage=1)
CLUSTER = clusters["dgx-h100"].build(64)
SAID = Reliability(
    failures=Failures(mtbf_s=64 * 6 * SECONDS_PER_HOUR, source="counted by hand"),
    restart_s=600.0,
    checkpoints=Checkpoints(writes=(SharedBandwidth(bandwidth_bytes_per_s=2 * GIGA),)),
)
BESIDE = replace(SAID.checkpoints, copies=(DeviceBandwidth(bandwidth_bytes_per_s=20 * GIGA),))


def shown(rows: Iterable[Entry]) -> tuple[tuple[str, ...], ...]:
    return table_of(FigureTable(title="goodput", rows=tuple(rows))).rows


def outcome_of(said: Reliability | NotStated = SAID) -> Outcome:
    found = evaluate(WORKLOAD, replace(CLUSTER, reliability=said), PLAN)
    assert isinstance(found, Outcome)
    return found


def goodput_of(said: Reliability) -> Goodput:
    found = outcome_of(said).goodput
    assert isinstance(found, Goodput)
    return found


def test_nothing_is_said_where_nothing_is_known():
    silent = outcome_of(NotStated())
    assert silent.goodput == NotStated()
    assert shown(goodput_rows(silent)) == ()
    assert entries_record(goodput_rows(silent)) == {}
    assert any("no stragglers, failures" in sentence for sentence in assumptions(silent))
    assert (
        "if nothing fails; no failure rate is known for this cluster"
        in shown(budget_rows(silent, Budget(num_tokens=3e11)))[0][1]
    )
    assert "expected_s" not in entries_record(budget_rows(silent, Budget(num_tokens=3e11)))["budget"]


def test_rows_say_what_is_of_use_what_is_lost_and_how_often_it_is_saved():
    (_, share), (_, saved) = shown(goodput_rows(outcome_of()))
    assert "of the time is of use" in share
    assert "to restarts" in share
    assert "to slow devices" not in share
    assert "the best); a failure every 6.0 h, 10.9 min to restart" in saved


def test_an_interval_that_is_not_the_best_is_told_beside_it():
    often = replace(SAID.checkpoints, interval=CountedInterval(num_steps=1))
    said = shown(goodput_rows(outcome_of(replace(SAID, checkpoints=often))))[1][1]
    best = goodput_of(SAID)
    assert f"(1 step, best {best.num_steps:,}: {best.useful_frac:.1%}".replace("%", " %") in said


def test_what_runs_beside_compute_is_told_apart():
    assert "56.2 s" in shown(goodput_rows(outcome_of(replace(SAID, checkpoints=BESIDE))))[1][1]


def test_checkpoints_beside_compute_lose_less_than_those_that_are_waited_for():
    assert goodput_of(replace(SAID, checkpoints=BESIDE)).useful_frac > goodput_of(SAID).useful_frac


def test_a_restart_reads_the_checkpoint_back():
    found = goodput_of(SAID)
    assert found.recovery.restart_s == 600.0 + found.checkpoint_bytes / (2 * GIGA)
    assert goodput_of(replace(SAID, checkpoints=BESIDE)).recovery.restart_s == found.recovery.restart_s


def test_slow_devices_lengthen_the_step_and_show_among_the_losses():
    slow = goodput_of(replace(SAID, slow_devices=SlowDevices(speed_frac=0.8)))
    assert slow.slowed_step_s > outcome_of().step.step_s
    assert slow.slow_frac > 0.1
    replacement = Replacement(onsets=Failures(mtbf_s=1000 * SECONDS_PER_DAY), detect_s=SECONDS_PER_HOUR)
    found = goodput_of(replace(SAID, slow_devices=SlowDevices(speed_frac=0.8, replacement=replacement)))
    assert 0 < found.slow_frac < slow.slow_frac


def test_a_budget_takes_longer_by_what_is_lost():
    outcome = outcome_of()
    budget = entries_record(budget_rows(outcome, Budget(num_tokens=3e11)))["budget"]
    assert budget["num_steps"] == 572205  # of 64 x 8192 tokens, the last not full
    assert budget["ideal_s"] == pytest.approx(572205 * outcome.step.step_s)
    assert isinstance(outcome.goodput, Goodput)
    assert budget["expected_s"] == pytest.approx(budget["ideal_s"] / outcome.goodput.useful_frac)
    assert shown(budget_rows(outcome, Budget(num_tokens=3e11)))[0][0] == "300.0 B tokens"
    assert shown(budget_rows(outcome, Budget(num_tokens=0.0))) == ()
    assert entries_record(budget_rows(outcome, Budget(num_tokens=0.0))) == {}


def test_the_answer_holds_goodput_and_says_how_failures_are_counted():
    outcome = outcome_of()
    told = record(outcome, num_tokens=3e11)
    shares = ("useful", "checkpoint", "rework", "restart", "slow", "replace")
    assert sum(told["goodput"][f"{share}_frac"] for share in shares) == pytest.approx(1.0)
    assert told["goodput"]["tokens_per_s"] == pytest.approx(told["goodput"]["useful_frac"] * told["tokens_per_s"])
    assert told["budget"]["num_tokens"] == 3e11
    assert any(sentence.endswith("counted by hand") for sentence in told["assumptions"])
    labels = [row[0] for row in tables(outcome, num_tokens=3e11)[0].rows]
    assert labels[-3:] == ["goodput", "checkpoints", "300.0 B tokens"]


def test_a_budget_of_less_than_a_step_takes_one():
    outcome = outcome_of(NotStated())
    assert entries_record(budget_rows(outcome, Budget(num_tokens=15.0)))["budget"]["ideal_s"] == outcome.step.step_s
    assert "0.0 ms" not in shown(budget_rows(outcome, Budget(num_tokens=15.0)))[0][1]


ONSETS = Replacement(onsets=Failures(mtbf_s=1.0), detect_s=SECONDS_PER_HOUR)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (replace(SAID, failures=Failures(mtbf_s=SECONDS_PER_HOUR)), "it fails every 56.2 s, and needs"),
        (
            replace(SAID, checkpoints=replace(SAID.checkpoints, interval=CountedInterval(num_steps=10**8))),
            "checkpoints come too rarely, and after every",
        ),
        (
            replace(SAID, slow_devices=SlowDevices(speed_frac=0.8, replacement=ONSETS)),
            "devices turn slow more often than they can be replaced; give onsets a longer mtbf",
        ),
    ],
    ids=["failures", "interval", "onsets"],
)
def test_a_job_that_never_gets_on_keeps_its_step_and_is_told_why(said, words):
    outcome = outcome_of(said)
    assert outcome.step.step_s == outcome_of().step.step_s
    assert f"0 % of the time is of use: this job never gets on; {words}" in shown(goodput_rows(outcome))[0][1]
    assert entries_record(goodput_rows(outcome))["goodput"]["makes_progress"] is False
    assert "never: this job does not get on" in shown(budget_rows(outcome, Budget(num_tokens=3e11)))[0][1]
    assert "expected_s" not in entries_record(budget_rows(outcome, Budget(num_tokens=3e11)))["budget"]


def test_failures_of_parts_are_not_modelled():
    parts = tuple(replace(CLUSTER, name=name, reliability=SAID) for name in ("a", "b"))
    mixed = HeterogeneousCluster(name="both", pools=parts, between=CLUSTER.topology.dimensions[-1].link)
    sharded = shard(WORKLOAD.training_graph(), PLAN)
    steps = PlanSteps(sharded, WORKLOAD.precision)
    with pytest.raises(NotModelled, match="reliability is not modelled"):
        long_run(sharded, steps, mixed, WORKLOAD.precision, 1.0)


def test_a_price_makes_dollars_of_a_step_and_of_a_run():
    outcome = outcome_of()
    budget = Budget(num_tokens=3e11, device_usd_per_s=2.5 / 3600)
    record = entries_record((*price_rows(outcome, budget), *budget_rows(outcome, budget)))
    devices_h = outcome.cluster.num_devices * outcome.step.step_s / 3600
    assert step_usd(outcome, budget) == record["price"]["step_usd"] == pytest.approx(2.5 * devices_h)
    assert record["price"]["token_usd"] * outcome.tokens_per_step == pytest.approx(2.5 * devices_h)
    run = run_of(outcome, budget)
    assert run is not None
    assert record["budget"]["expected_usd"] == run.expected_usd
    assert run.expected_usd / run.ideal_usd == pytest.approx(run.expected_s / run.ideal_s)
    assert run.ideal_usd == pytest.approx(run.num_steps * 2.5 * devices_h)
    assert list(price_rows(outcome, Budget(num_tokens=3e11))) == []
