"""A cluster fitted to runs: what was put in comes out, where the runs tell."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dovetail.accuracy.cluster_fit import OwnRun, fit_cluster, is_at_bound
from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.hardware.scales import MAX_SCALE, Scales, scaled
from dovetail.parallel.plan import Overlap, Plan
from dovetail.report.cluster_calibration import cluster_fit_record
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

WAITING = Overlap(data=False, tensor=False, context=False, expert=False, pipeline=False)
PLANS = (
    Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=2, overlap=WAITING),
    Plan(tensor_parallel=1, data_parallel=16, overlap=WAITING),
    Plan(tensor_parallel=16, overlap=WAITING),
    Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=4, overlap=WAITING),
    Plan(tensor_parallel=1, pipeline_parallel=4, data_parallel=4, overlap=WAITING),
)


def runs(truth: Scales, plans=PLANS, noise=(0.0,) * 5) -> list[OwnRun]:
    """Runs of a model that take as long as the truth has it, but for some noise in logarithms."""
    cluster = clusters["dgx-h100"].build(16)
    workload = Workload(model=models["gpt2-345m"](), global_batch=64, seq=1024)
    graph, made = workload.training_graph(), []
    for index, plan in enumerate(plans):
        run = OwnRun(
            name=f"{index}",
            graph=graph,
            precision=workload.precision,
            cluster=cluster,
            plan=plan,
            measured_s=1.0,
        )
        made.append(replace(run, measured_s=run.step_s(truth) * math.exp(noise[index])))
    return made


def test_two_scales_are_found_where_runs_tell_them_apart():
    """Of a large model, whose collectives are no small part of a step."""
    graph = Workload(model=models["llama3-8b"](), global_batch=64, seq=2048).training_graph()
    truth = Scales(compute_scale=0.9, link_scale=0.6)
    large = [replace(run, graph=graph) for run in runs(Scales())]
    found = fit_cluster([replace(run, measured_s=run.step_s(truth)) for run in large])
    assert found.num_scales == 2
    assert found.scales.compute_scale == pytest.approx(0.9, rel=0.005)
    assert found.scales.link_scale == pytest.approx(0.6, rel=0.01)
    assert found.spread_frac < 0.001
    for run in found.runs:
        assert run.after_s == pytest.approx(run.measured_s, rel=0.001)
        assert run.before_s < run.measured_s


def test_runs_that_answer_alike_get_one_scale():
    found = fit_cluster(runs(Scales(compute_scale=0.8, link_scale=0.8), plans=PLANS[:1] * 5))
    assert found.num_scales == 1
    assert found.scales.compute_scale == found.scales.link_scale == pytest.approx(0.8, rel=0.005)


def test_fewer_than_four_runs_get_one_scale():
    assert fit_cluster(runs(Scales(compute_scale=0.9, link_scale=0.6), plans=PLANS[:3])).num_scales == 1


def test_a_single_run_is_met_and_says_nothing_of_others():
    [run] = fit_cluster(runs(Scales(compute_scale=0.9, link_scale=0.9), plans=PLANS[:1])).runs
    assert run.after_s == pytest.approx(run.measured_s, rel=0.001)
    assert run.left_out_s == run.before_s


def test_errors_on_runs_left_out_are_those_of_a_fit_to_the_others():
    noise = (0.05, -0.03, 0.02, -0.06, 0.01)
    given = runs(Scales(compute_scale=0.8, link_scale=0.8), plans=PLANS[:1] * 5, noise=noise)
    found = fit_cluster(given)
    for index, run in enumerate(found.runs):
        others = fit_cluster(given[:index] + given[index + 1 :])
        assert run.left_out_s == pytest.approx(given[index].step_s(others.scales), rel=0.003)


def test_what_pace_cannot_explain_stays_at_a_bound_and_is_told():
    found = fit_cluster([replace(run, measured_s=5 * run.measured_s) for run in runs(Scales())])
    assert found.scales.compute_scale == pytest.approx(1 / MAX_SCALE)
    assert is_at_bound(found.scales)
    assert not is_at_bound(Scales(compute_scale=0.5))


@pytest.mark.parametrize(("factor", "words"), [(100, r"25[.\d]* times longer"), (0.001, "times shorter")])
def test_a_run_that_is_of_another_job_is_refused_by_its_name(factor, words):
    with pytest.raises(InvalidInput, match=f"0 is .*{words} than predicted"):
        fit_cluster([replace(run, measured_s=factor * run.measured_s) for run in runs(Scales(), plans=PLANS[:1])])


@pytest.mark.parametrize("plan", PLANS)
def test_a_pace_of_everything_is_that_of_the_step(plan):
    """Of a large model, whose power limit would raise the clock of a slower device were its power to fall."""
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=2048)
    [run] = runs(Scales(), plans=(plan,))
    run = replace(run, graph=workload.training_graph())
    for scale in (0.7, 0.9):
        slower = run.step_s(Scales(compute_scale=scale, link_scale=scale))
        assert slower == pytest.approx(run.step_s(Scales()) / scale, rel=0.02)


def test_no_run_is_refused():
    with pytest.raises(InvalidInput, match="at least 1 run"):
        fit_cluster([])


def test_no_rate_goes_beyond_the_datasheet():
    cluster = clusters["dgx-h100"].build(16)
    by_links = scaled(links_alone(cluster), Scales(compute_scale=3.0, link_scale=3.0)).chip.calibration
    assert by_links.link_frac == 1.0
    by_library = scaled(cluster, Scales(compute_scale=3.0, link_scale=3.0))
    faster, most = by_library.chip.calibration, 1 / cluster.chip.calibration.link_frac
    assert (faster.tensor_frac, faster.hbm_frac) == (1.0, 1.0)
    for link, was in zip(by_library.topology.dimensions, cluster.topology.dimensions, strict=True):
        assert link.link.bandwidth_bytes_per_s == pytest.approx(was.link.bandwidth_bytes_per_s * most)
        assert link.link.latency_s == pytest.approx(was.link.latency_s / 3)
    assert faster.launch_s == pytest.approx(cluster.chip.calibration.launch_s / 3)
    assert scaled(cluster, Scales()) == cluster


@pytest.mark.parametrize("scale", [0.0, -1.0, 5.0, math.nan, math.inf])
def test_scales_that_cannot_be_are_refused(scale):
    with pytest.raises(InvalidInput, match="compute must be from"):
        Scales(compute_scale=scale)


def test_a_run_that_would_not_fit_is_told_apart_from_those_that_do():
    workload = Workload(model=models["llama3-70b"](), global_batch=16, seq=4096)
    large = OwnRun(
        name="large",
        graph=workload.training_graph(),
        precision=workload.precision,
        cluster=clusters["dgx-h100"].build(16),
        plan=Plan(tensor_parallel=8, data_parallel=2),
        measured_s=1.0,
    )
    found = fit_cluster([replace(large, measured_s=large.step_s(Scales())), *runs(Scales())[:2]])
    assert [run.fits for run in found.runs] == [False, True, True]
    assert found.runs[0].need_bytes > found.runs[0].limit_bytes == large.cluster.chip.visible_bytes
    notes = cluster_fit_record(found, found.own_runs("mine.csv"))["notes"]
    assert sum("large ran, but by our count needs" in note for note in notes) == 1
