"""WHAM's comparison on a small space: what is called the best is, and what must not be better is not."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.papers.mappers import OURS, PAPERS
from dovetail.papers.verdicts import NOT_COMPARABLE, NOT_REPRODUCED
from dovetail.papers.wham import claims as said
from dovetail.papers.wham.cases import BASE, LIMITS, NAMES, REAL, tasks
from dovetail.papers.wham.claims import claims, holds, mean_gap_frac
from dovetail.papers.wham.convergence import designs_until
from dovetail.papers.wham.searches import JobSearches, every_step, forward_job, real_budget, wham_budget, within
from dovetail.papers.wham.study import Wham, wham_study
from dovetail.parallel.plan import Plan
from dovetail.report.papers.wham import wham_record, wham_tables
from dovetail.report.table import text_of
from dovetail.search.designs import design_space
from dovetail.search.mining.task import Task, whole_batch
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CHIP = chips[BASE]()
SPACE = design_space(sides=(64, 128), lanes=(128, 256), counts=(1, 2, 8))  # with WHAM's TPU v2's cores
BUDGET = replace(wham_budget(OURS), space=SPACE)
REAL_SPACE = design_space(sides=(64, 128), lanes=(128, 1024), counts=(1, 2, 8))  # with a real TPU v2's cores
VISION = whole_batch(Workload(model=models["resnet-18"](), global_batch=2, seq=models["resnet-18"]().seq))
CUT = Task(
    workload=Workload(model=models["bert-base"](), global_batch=4, seq=128),
    plan=Plan(pipeline_parallel=2, recompute=("full",)),
)


heard: list[str] = []


@cache
def studied(mapper, is_exhaustive):
    return wham_study(
        (VISION, CUT),
        replace(wham_budget(mapper), space=SPACE),
        replace(real_budget(mapper), space=REAL_SPACE),
        is_exhaustive=is_exhaustive,
        has_shared=mapper == OURS,
        log=heard.append,
    )


def study(is_exhaustive=True):
    return studied(OURS, is_exhaustive)


def both(is_exhaustive=True):
    return Wham(ours=study(is_exhaustive), by_paper_mapper=studied(PAPERS, is_exhaustive))


def with_models(*models):
    """`both`, whose models by our mapper begin with these."""
    ours = study()
    return replace(both(), ours=replace(ours, models=(*models, *ours.models[len(models) :])))


def test_the_proven_best_is_the_best_of_every_design():
    for model in study().models:
        assert model.is_confirmed
        assert model.every is not None
        assert 1 < model.every.num_designs < SPACE.num_points
        assert model.best.num_scheduled < model.every.num_designs
        assert model.best.step_s == pytest.approx(model.every.step_s, rel=1e-12)
    assert study().common_design.gain == pytest.approx(study().common_design.every_gain, rel=1e-12)
    assert holds(both())


def test_a_better_design_than_the_best_is_told():
    model = study().models[0]
    assert model.every is not None
    for beaten in (
        replace(model.every, step_s=model.every.step_s * 0.99),
        replace(model.every, per_watt_j=model.every.per_watt_j * 0.99),
    ):
        other = replace(model, every=beaten)
        assert not other.is_confirmed
        missed = with_models(other)
        assert not holds(missed)
        assert "NOT the best" in text_of(wham_tables(wham_record(missed)))


def test_a_heuristic_too_far_from_the_best_is_told():
    model = study().models[0]
    assert model.heuristics is not None
    grown = model.heuristics.grown
    slow = replace(grown.answer, jobs=(replace(grown.answer.jobs[0], step_s=model.best.step_s * 1.1),))
    other = replace(model, heuristics=replace(model.heuristics, grown=replace(grown, answer=slow)))
    missed = with_models(other)
    assert mean_gap_frac(missed.ours) == pytest.approx(0.05)
    assert not holds(missed)


def test_nothing_is_faster_than_the_best_within_the_limits():
    for model in (*study().models, *studied(PAPERS, True).models):
        assert model.heuristics is not None
        assert model.gain(model.reference) >= model.own_limits_gain >= 1
        assert model.real.gain >= 1
        assert model.real.per_watt_gain >= 1
        assert model.real.best.answer.area_mm2 <= model.real.as_is.area_mm2
        assert model.real.best.answer.power_w <= model.real.as_is.power_w
        assert model.per_watt_gain >= 1
        others = (
            model.per_watt,
            model.within_base_limits,
            model.heuristics.grown,
            model.heuristics.counted,
            *(one for _, one in model.inference),
        )
        assert all(other.step_s >= model.best.step_s * (1 - 1e-12) for other in others)
        assert all(other.answer.keeps(LIMITS) for other in (model.best, *others))
        assert model.within_base_limits.answer.area_mm2 <= model.reference.area_mm2
    assert min(study().common_design.slower) >= 1 - 1e-12


def test_chips_by_stage_are_told_of_models_that_are_cut_and_are_never_worse():
    [one] = study().mosaics
    assert one.model == CUT.name
    assert sum(len(kind.stages) for kind in one.mosaic.kinds) == 2
    assert one.pooled.gain_frac >= one.mosaic.gain_frac >= 0


def test_fewer_multipliers_are_never_faster():
    sizes, slower = zip(*study().by_multipliers, strict=True)
    assert list(sizes) == sorted(sizes)
    assert list(slower) == sorted(slower, reverse=True)
    assert slower[-1] == 1.0
    assert slower[0] > 1.5


def test_without_scheduling_every_design_the_same_is_found_by_proofs():
    quick, whole = study(False), study()
    assert quick.by_multipliers == ()
    assert [model.best.design for model in quick.models] == [model.best.design for model in whole.models]
    assert all(model.every is None and model.is_confirmed for model in quick.models)
    assert quick.common_design.answer == whole.common_design.answer
    assert all(model.heuristics is None for model in quick.models)


def test_who_waits_hears_of_every_model():
    study()
    for name in (VISION.name, CUT.name):
        assert any(words.startswith(f"{name}: ") for words in heard)


def test_a_forward_pass_is_less_work_and_of_one_sample_least():
    job, whole, one = (
        CUT.job(CHIP),
        forward_job(CUT, CHIP, is_single=False),
        forward_job(CUT, CHIP, is_single=True),
    )
    steps = [JobSearches(BUDGET, asked).best().step_s for asked in (one, whole, job)]
    assert steps == sorted(steps)
    assert steps[2] > 2 * steps[1]
    assert one.num_samples < whole.num_samples == job.num_samples


@pytest.mark.parametrize("algorithm", ["exact", "critical-path", "critical-path-exact"])
@pytest.mark.parametrize("metric", ["throughput", "perf/tdp"])
def test_a_search_finds_and_counts_the_same_where_every_step_is_known(algorithm, metric):
    job = VISION.job(BUDGET.base)
    own = studied(OURS, True).models[0].reference
    narrow = replace(LIMITS, area_mm2=own.area_mm2, power_w=own.power_w)
    known = JobSearches(BUDGET, job, every_step(within(BUDGET), job, heard.append))
    for limits in (LIMITS, narrow):
        ways = [
            one.best(metric=metric, algorithm=algorithm, limits=limits) for one in (known, JobSearches(BUDGET, job))
        ]
        assert ways[0] == ways[1]


def test_the_papers_mapper_is_never_faster_and_changes_no_silicon():
    pairs = zip(study().models, studied(PAPERS, True).models, strict=True)
    for ours, theirs in pairs:
        assert theirs.best.step_s >= ours.best.step_s
        assert theirs.reference.jobs[0].step_s > ours.reference.jobs[0].step_s
        assert theirs.reference.area_mm2 == ours.reference.area_mm2
        assert theirs.reference.power_w == ours.reference.power_w


def test_a_real_tpu_v2_is_within_the_limits_that_it_sets_itself():
    budget = real_budget(OURS)
    own = chips[REAL]()
    values = {knob.name: knob.values for knob in budget.space.knobs}
    assert own.vector.num_lanes in values["num_lanes"]
    assert own.vector.num_units in values["num_vector"]
    assert budget.base.tensor.tiling.fill == "hidden"
    assert real_budget(PAPERS).limits == budget.limits


def test_designs_are_counted_once_until_one_is_near_enough():
    job = VISION.job(BUDGET.base)
    searches = JobSearches(BUDGET, job, every_step(within(BUDGET), job, heard.append))
    known = searches.known(searches.question())
    inside = [point for point, one in known.items() if math.isfinite(one.loss)]
    first, second, *_, last = points = sorted(inside, key=lambda point: -known[point].loss)

    def asking():
        yield [first]
        yield [first, second]
        yield points[2:]

    assert known[last].loss < known[second].loss < known[first].loss
    assert designs_until(asking(), known, known[second].loss, 100) == 2
    assert designs_until(asking(), known, known[last].loss, 100) <= len(points)
    assert designs_until(asking(), known, known[last].loss, 3) == 3
    assert designs_until(asking(), known, 0.0, 100) == len(points)  # it ends before


def test_some_models_alone_must_not_meet_the_mean_of_all():
    found = claims(both())
    assert not any(claim.least for claim in found)
    assert {claim.verdict for claim in found} == {NOT_COMPARABLE}


def test_all_claims_of_the_paper_get_a_verdict(monkeypatch):
    monkeypatch.setattr(said, "NAMES", (VISION.name, CUT.name))
    found = claims(both())
    assert [claim.reported for claim in found] == [(1.12, 1.23), (12.0,), (8.1,), (31.0,), (174.0,)]
    assert [claim.verdict for claim in found[1:]] == [NOT_REPRODUCED, NOT_REPRODUCED, NOT_REPRODUCED, NOT_COMPARABLE]
    assert all(reading.paper_mapper and reading.ours for claim in found[:4] for reading in claim.readings)
    quick = claims(both(False))
    assert (quick[3].verdict, quick[3].readings[0].ours) == (NOT_COMPARABLE, None)


def test_over_all_models_our_chips_must_beat_the_hand_tuned_ones(monkeypatch):
    monkeypatch.setattr(said, "NAMES", (VISION.name, CUT.name))
    first, *others = claims(both())
    assert first.least == 1
    assert not any(claim.least for claim in others)
    record = wham_record(both())
    assert record["claims"][0]["must_hold"]
    ours = first.readings[0].ours
    assert ours is not None
    assert record["claims"][0]["holds"] == (ours > 1) == holds(both())
    record["claims"][0]["holds"] = False
    assert "MISSED" in text_of(wham_tables(record))


@pytest.mark.parametrize("is_exhaustive", [True, False])
def test_tables_fit_a_terminal_and_name_every_model(is_exhaustive):
    text = text_of(wham_tables(wham_record(both(is_exhaustive))))
    assert max(map(len, text.splitlines())) <= 80
    for word in (VISION.name, CUT.name, "8.1", "1.12 to 1.23", "tpuv4's cores"):
        assert word in text


def test_the_eleven_models_fit_the_chip():
    found = tuple(tasks())
    assert tuple(task.name for task in found) == NAMES
    assert len(NAMES) == 11
    assert all(task.memory(CHIP).fits for task in found)


def test_a_model_that_wham_has_not_is_refused():
    with pytest.raises(InvalidInput, match="WHAM has no model named 'resnet-8'; did you mean resnet-18"):
        tasks(("bert-base", "resnet-8"))
