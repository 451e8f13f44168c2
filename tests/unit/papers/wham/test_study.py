"""WHAM's comparison on a small space: what is called the best is, and what must not be better is not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.papers.wham import claims as said
from dovetail.papers.wham.cases import BASE, LIMITS, NAMES, tasks
from dovetail.papers.wham.claims import claims, holds, mean_gap_frac
from dovetail.papers.wham.searches import Budget, forward_job, searched, within
from dovetail.papers.wham.study import wham_study
from dovetail.parallel.plan import Plan
from dovetail.report.papers.wham import wham_record, wham_tables
from dovetail.report.table import text_of
from dovetail.search.designs import design_space
from dovetail.search.mining.task import Task, whole_batch
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CHIP = chips[BASE]()
SPACE = design_space(sides=(64, 128), lanes=(128, 256), counts=(1, 2, 8))  # with WHAM's TPU v2's cores
BUDGET = Budget(base=CHIP, space=SPACE, limits=LIMITS)
VISION = whole_batch(Workload(model=models["resnet-18"](), global_batch=2, seq=models["resnet-18"]().seq))
CUT = Task(
    workload=Workload(model=models["bert-base"](), global_batch=4, seq=128),
    plan=Plan(pipeline_parallel=2, recompute=("full",)),
)


heard: list[str] = []


@cache
def studied(is_exhaustive):
    return wham_study((VISION, CUT), BUDGET, is_exhaustive=is_exhaustive, told=heard.append)


def study(is_exhaustive=True):
    return studied(is_exhaustive)


def test_the_proven_best_is_the_best_of_every_design():
    for model in study().models:
        assert model.is_confirmed
        assert model.every is not None
        assert model.every.num_designs == len(within(BUDGET).designs) < SPACE.num_points
        assert model.best.num_scheduled < model.every.num_designs
        assert model.best.step_s == pytest.approx(model.every.step_s, rel=1e-12)
    assert study().common_design.gain == pytest.approx(study().common_design.every_gain, rel=1e-12)
    assert holds(study())


def test_a_better_design_than_the_best_is_told():
    model = study().models[0]
    assert model.every is not None
    for beaten in (
        replace(model.every, step_s=model.every.step_s * 0.99),
        replace(model.every, per_watt_j=model.every.per_watt_j * 0.99),
    ):
        other = replace(model, every=beaten)
        assert not other.is_confirmed
        missed = replace(study(), models=(other, *study().models[1:]))
        assert not holds(missed)
        assert "NOT the best" in text_of(wham_tables(wham_record(missed)))


def test_a_heuristic_too_far_from_the_best_is_told():
    model = study().models[0]
    slow = replace(
        model.grown.answer,
        jobs=(replace(model.grown.answer.jobs[0], step_s=model.best.step_s * 1.1),),
    )
    other = replace(model, grown=replace(model.grown, answer=slow))
    missed = replace(study(), models=(other, *study().models[1:]))
    assert other.grown_gap_frac == pytest.approx(0.1)
    assert mean_gap_frac(missed) == pytest.approx(0.05)
    assert not holds(missed)


def test_nothing_is_faster_than_the_best_within_the_limits():
    for model in study().models:
        assert model.gain(model.reference) >= model.own_limits_gain >= 1
        assert model.per_watt_gain >= 1
        others = (
            model.per_watt,
            model.within_base_limits,
            model.grown,
            model.counted,
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
    steps = [searched(BUDGET, asked, asked).step_s for asked in (one, whole, job)]
    assert steps == sorted(steps)
    assert steps[2] > 2 * steps[1]
    assert one.num_samples < whole.num_samples == job.num_samples


def test_some_models_alone_must_not_meet_the_mean_of_all():
    assert not any(claim.least for claim in claims(study()))


def test_all_models_must_meet_the_papers_gain(monkeypatch):
    monkeypatch.setattr(said, "NAMES", (VISION.name, CUT.name))
    first, own, *others = claims(study())
    assert first.least == own.least == 1.23
    assert not any(claim.least for claim in others)
    missed = replace(study(), models=tuple(replace(m, best=m.within_base_limits) for m in study().models))
    assert said.claims(missed)[0].ours < first.ours
    record = wham_record(study())
    assert record["claims"][0]["must_hold"]
    record["claims"][0]["holds"] = False
    assert "MISSED" in text_of(wham_tables(record))


@pytest.mark.parametrize("is_exhaustive", [True, False])
def test_tables_fit_a_terminal_and_name_every_model(is_exhaustive):
    text = text_of(wham_tables(wham_record(study(is_exhaustive))))
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
