"""PHAZE's models beside ours, with plans and chips handed in; NEST's table held to what its own code says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dovetail.hardware.catalog import chips
from dovetail.papers.mappers import OURS, PAPERS
from dovetail.papers.nest import CASES as NEST_CASES
from dovetail.papers.nest import manual_placement
from dovetail.papers.phaze import (
    Found,
    Joint,
    OtherSearches,
    around_real,
    baselines,
    expert_placement,
    fastest,
    found,
    phaze_study,
    real_chip,
)
from dovetail.papers.phaze_cases import CALIBRATED, CASES, PUBLISHED, cluster_of
from dovetail.papers.phaze_claims import Phaze, claims
from dovetail.parallel.plan import Plan
from dovetail.report.papers.phaze import phaze_record, phaze_tables
from dovetail.report.table import WIDTH, text_of
from dovetail.units import GIBI

BERT = next(case for case in CASES if case.name == "BERT-large")
TERMS = tuple(replace(terms, recompute=("none",)) for terms in (PUBLISHED, CALIBRATED))  # fewer plans to try
GPT3 = next(case for case in CASES if case.name == "GPT3-175B")
BY_NAME = {case.name: case for case in NEST_CASES}


def expert_of(case, terms) -> Found:
    expert = expert_placement(case, terms)
    assert expert is not None
    return expert


def twice_as_fast(workload, cluster, terms) -> Found:
    expert = expert_of(BERT, terms)
    return found(workload, cluster, expert.plan, expert.step_s / 2, expert.step_s / 4)


def four_times_as_fast(case, terms, mapper=OURS) -> Joint:
    expert = expert_of(case, terms)
    cluster = cluster_of(chips["phaze-tpuv4"](), terms)
    best = found(case.workload(terms), cluster, expert.plan, expert.step_s / 4, expert.step_s / 4)
    return Joint(
        chip=cluster.chip,
        found=best,
        num_chips=10,
        num_evaluated=2,
        num_pruned=7,
        num_infeasible=1,
        beside=OtherSearches(
            searched_sequences_per_s=100.0,
            plan_then_chip_sequences_per_s=80.0,
            chip_then_plan_sequences_per_s=None,
            stopped_chips=3,
            stopped_sequences_per_s=best.sequences_per_s / 2,
        ),
    )


def studied(ours, by_paper_mapper=()) -> Phaze:
    return Phaze(ours=tuple(ours), by_paper_mapper=tuple(by_paper_mapper), nest=(), nest_by_paper_mapper=())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model)
def test_an_experts_placement_fits_the_cluster_and_shares_the_batch_evenly(case):
    plan = case.expert_plan
    workload = case.workload(PUBLISHED, plan.data_parallel)
    assert plan.num_devices in (1020, 1024)
    assert 4080 <= workload.global_batch <= 4096
    assert plan.num_microbatches(workload.global_batch)


def test_published_terms_keep_four_bytes_a_parameter_and_no_limit_of_power():
    precision = PUBLISHED.precision
    assert precision.weight_bytes + precision.gradient_bytes + precision.optimizer_bytes == 4
    chip = next(baselines())
    assert cluster_of(chip, PUBLISHED).chip.tdp_w > 1000 * chip.tdp_w
    on_terms = cluster_of(chip, CALIBRATED).chip
    assert on_terms == replace(chip, hbm_reserve_frac=0.0, sources=on_terms.sources)


def test_experts_take_the_least_hbm_that_their_degrees_fit():
    recomputed = [replace(terms, recompute=("full",)) for terms in (PUBLISHED, CALIBRATED)]
    assert [expert_of(GPT3, terms).hbm_bytes for terms in recomputed] == [32 * GIBI, 64 * GIBI]


def test_of_plans_that_do_not_fit_none_is_the_fastest():
    workload, cluster = GPT3.workload(CALIBRATED), cluster_of(next(baselines()), CALIBRATED)
    assert fastest(workload, cluster, [Plan(data_parallel=1024)]) is None


def test_gains_are_over_the_experts_and_over_our_plan():
    [published, calibrated] = phaze_study(twice_as_fast, four_times_as_fast, [BERT], TERMS)
    assert [published.terms, calibrated.terms] == list(TERMS)
    assert published.placement_gain == pytest.approx(2)
    assert published.joint_gain == pytest.approx(2)
    assert published.whole_gain == pytest.approx(4)
    assert published.ours is not None
    assert published.ours.gap_frac == pytest.approx(0.5)


def test_the_study_is_json_and_tables_with_and_without_chips():
    alone = phaze_record(studied(phaze_study(twice_as_fast, cases=[BERT], terms=TERMS)))
    joined = phaze_record(studied(phaze_study(twice_as_fast, four_times_as_fast, [BERT], TERMS)))
    assert json.loads(json.dumps(joined, allow_nan=False)) == joined
    assert "The best chip and plan together" not in text_of(phaze_tables(alone))
    assert text_of(phaze_tables(joined)).count("The best chip and plan together") == len(TERMS)
    assert joined["models"][0]["joint"]["stopped_frac"] == pytest.approx(0.5)


def wide(record):
    """`record` for all models, with figures as long as they get."""
    [one] = record["models"]
    plan = {"pipeline_parallel": 128, "data_parallel": 1024, "tensor_parallel": 8, "sequences_per_s": 123_456.7}
    joint = one["joint"] | {"cores": "256 x (256x256) + 256 x 256", "num_evaluated": 29_360, "stopped_chips": 29_360}
    joint |= {"found": joint["found"] | plan, "gain_over_expert": 12.34567, "gain_over_chip_then_plan": 1.23456}
    long = {"expert": one["expert"] | plan, "ours": one["ours"] | plan, "placement_gain": 12.345, "joint": joint}
    return record | {"models": [one | long | {"reported_as": case.name} for case in CASES]}


def test_the_tables_are_whole_on_a_narrow_screen():
    record = wide(phaze_record(studied(phaze_study(twice_as_fast, four_times_as_fast, [BERT], TERMS[:1]))))
    text = text_of(phaze_tables(record))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "..." not in text
    for case in CASES:
        assert text.count(f"  {case.name} ") == 3
    for words in ("/expert", "looked at", "29,360", "256 x (256x256) + 256 x 256, 128 MiB, 32 GiB", "128/1024/8"):
        assert words in " ".join(text.split())  # a chip may go on below


def test_nothing_that_fits_is_said_in_words():
    nothing = phaze_study(lambda *_: None, cases=[BERT], terms=TERMS[:1])
    assert "none fits" in text_of(phaze_tables(phaze_record(studied(nothing))))


@pytest.mark.parametrize("case", NEST_CASES, ids=lambda case: case.model)
def test_what_nest_reports_of_manual_is_the_filling_of_its_pipeline(case):
    assert case.filled_ratio == pytest.approx(case.manual, abs=0.01)


@pytest.mark.parametrize("case", NEST_CASES, ids=lambda case: case.model)
def test_what_nest_gains_over_manual_is_its_lopsided_cut(case):
    """But for BERT-large, which also drops its pipeline, and Llama3, whose manual leaves 64 devices idle."""
    without_pipeline = (32 + 7) / 32 if case.name == "BERT-large" else 1.0
    idle = 1024 / 960 if case.name == "Llama3-70B" else 1.0
    assert sum(case.lopsided) == case.num_layers
    assert 1.0 <= case.nest / case.manual / (case.last_stage_ratio * without_pipeline) * (1 + 1e-3) <= 1.01 * idle


def test_manual_is_slower_by_the_cut_of_its_code_than_with_equal_stages():
    case = BY_NAME["BERT-large"]
    lopsided = manual_placement(case, case.num_copies, case.lopsided, ("none",))
    even = manual_placement(case, case.num_copies, (), ("none",))
    assert even.sequences_per_s > 1.1 * lopsided.sequences_per_s


def test_searching_together_is_laid_beside_one_search_after_the_other():
    joint = four_times_as_fast(CASES[1], TERMS[0])
    assert joint.beside is not None
    assert joint.beside.over_plan_then_chip == 100.0 / 80.0
    assert joint.beside.over_chip_then_plan is None  # where no plan fits there is nothing to be better than


def test_each_mapper_has_claims_of_its_own_and_a_verdict_needs_all_models():
    def of(mapper):
        [one] = phaze_study(twice_as_fast, four_times_as_fast, [BERT], TERMS[:1], mapper)
        return replace(one, real=around_real(twice_as_fast, four_times_as_fast, BERT, TERMS[0], mapper))

    ours, theirs = of(OURS), of(PAPERS)
    assert theirs.expert.step_s > ours.expert.step_s
    tpu, spotlight = claims(studied([ours], [theirs]))
    assert tpu.verdict == spotlight.verdict == "not comparable"
    assert "all 8 models" in tpu.why
    assert tpu.readings[0].paper_mapper == pytest.approx(theirs.whole_gain)
    assert tpu.readings[0].ours == pytest.approx(4)
    assert tpu.readings[2].ours == pytest.approx(ours.real.whole_gain)
    whole = [[replace(one, case=case) for case in CASES] for one in (ours, theirs)]
    tpu, _ = claims(studied(*whole))
    assert tpu.verdict == "reproduced"
    slower = [replace(one, expert=replace(one.expert, sequences_per_s=1e9)) for one in whole[1]]
    assert claims(studied(whole[0], slower))[0].verdict == "not reproduced"
    text = text_of(phaze_tables(phaze_record(studied(*whole))))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.count("higher") >= 2


def test_the_real_chip_keeps_its_own_memory_and_calibration():
    own = chips["tpu-v4"]()
    assert real_chip(OURS) == own
    theirs = real_chip(PAPERS)
    assert theirs.calibration == own.calibration
    assert theirs.tensor.tiling.stationary == ("weight",)
