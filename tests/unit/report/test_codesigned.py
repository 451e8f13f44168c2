"""What is said of a joint search: the answer, the proof, what it takes, and why there is none."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest

from dovetail.report.codesigned import CodesignReport, codesigned_figures, notes, proof, sentence
from dovetail.report.figures import record_of, tables_of
from dovetail.report.nothing_fits import nothing_record, nothing_tables
from dovetail.report.plain import Record
from dovetail.report.table import WIDTH, text_of
from dovetail.search.codesign.answers import answer_of, base_answer, separate, with_reference
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.system_labels import as_labels
from dovetail.search.metrics import metrics
from tests.codesign_questions import PLANS, question

VALUES = {"num_tensor": (2, 4, 8, 16, 32), "num_lanes": (64, 128), "num_devices": (4, 8)}
WHOLE = replace(PLANS, pipeline_parallel=(1,))


@cache
def codesigned_record(told: CodesignReport) -> Record:
    return record_of(codesigned_figures(told))


@cache
def report(names: tuple[str, ...] = ("tied",), metric: str = "throughput", *, is_limited: bool = True):
    budget = Budget(area_mm2=900.0, total_power_w=4000.0) if is_limited else Budget()
    asked = question(names, VALUES, metric=metric, budget=budget, plans=WHOLE, weights=(2.0, 1.0)[: len(names)])
    base = base_answer(asked)
    assert base is not None
    asked = with_reference(asked, base)
    scorer = Scorer(asked)
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    best = answer_of(asked, found.best)
    return CodesignReport(
        name="a system",
        question=asked,
        metric_name=metric,
        metric=metrics[metric],
        network="torus",
        preset="chip",
        found=found,
        best=best,
        base=base,
        separate=separate(asked, base),
        others=(best, base),
    )


def as_text(some: CodesignReport) -> str:
    text = text_of(tables_of(codesigned_figures(some)))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    return text


@pytest.mark.parametrize(
    ("names", "metric"), [(("tied",), "throughput"), (("tied",), "tokens/J"), (("tied", "dense"), "throughput")]
)
def test_the_answer_is_told_within_80_columns(names, metric):
    text = as_text(report(names, metric))
    for word in ("Best system for", "The system", "Limits", "Plans on it", "both together", "Other systems", "Notes"):
        assert word in text
    assert ("by energy plans with equal stages alone" in " ".join(text.split())) == (metric == "tokens/J")


def test_the_sentence_names_system_figure_and_gain():
    told, best = sentence(report()), report().best.system
    cores = f"{best['num_tensor']:g} x (128x128) + {best['num_vector']:g} x {best['num_lanes']:g}"
    assert told.startswith(f"Best system for gpt2-345m by throughput: {cores}, 128 MiB, 32 GiB, 8 devices; ")
    gain_frac = codesigned_record(report())["best"]["gain_frac"]
    assert f"tokens/s, {100 * gain_frac:+.1f} % over" in told
    assert told.endswith("over tpuv4-like with its best plan")
    assert sentence(report(("tied", "dense"))).startswith("Best system for 2 models by throughput: ")
    assert sentence(replace(report(), base=None)).endswith("the tpuv4-like chip itself does not fit")
    as_text(replace(report(), base=None, separate=None, others=()))


def test_the_proof_counts_all_systems():
    some = report()
    census = some.found.census
    counted = census.num_scored + census.num_pruned + census.num_over_limit + census.num_out_of_memory
    assert counted == census.num_systems == 20
    assert proof(some).startswith("optimal in the model, of 20 systems with every plan of the space: ")
    assert f"{census.num_over_limit} beyond the limits" in proof(some)


def test_where_a_gap_is_left_the_proof_says_how_much_better_another_could_be():
    some = report()
    found = replace(some.found, bound=0.8 * some.found.best.loss, census=replace(some.found.census, num_open=3))
    told = proof(replace(some, found=found))
    assert "proven" not in told
    assert "another could be better by 25.0 % at the most, as 3 are not closed" in told
    record = codesigned_record(replace(some, found=found))
    assert (record["is_proven"], record["gap_frac"]) == (False, pytest.approx(0.2))


def test_limits_are_told_with_the_share_that_is_taken():
    text = as_text(report())
    best = report().best
    assert best.area_mm2 <= 900
    assert best.num_devices * best.power_w <= 4000
    assert f"{best.area_mm2 / 900:.1%}".replace("%", " %") in text
    assert "Limits" not in as_text(report(is_limited=False))


def test_the_answer_says_who_runs_collectives_and_how_large_buffers_are():
    some = report()
    ended = replace(some, best=replace(some.best, system=some.best.system | {"endpoint": 3.0, "core_buffer_kib": 32.0}))
    assert ", ace, 8 devices; " in sentence(ended)
    assert "ace" not in sentence(some)
    rows = {
        row[0]: row[1:3]
        for table in tables_of(codesigned_figures(ended))
        for row in table.rows
        if table.title == "The system"
    }
    assert rows["endpoint"] == ("ace", "sm")
    assert rows["buffer of a core, KiB"] == ("32", "256")
    assert codesigned_record(ended)["best"]["system"]["endpoint"] == "ace"


def test_a_record_is_plain_data_of_the_same_figures():
    some = report(("tied", "dense"))
    record = json.loads(json.dumps(codesigned_record(some)))
    assert (record["feasible"], record["is_proven"], record["gap_frac"]) == (True, True, 0.0)
    assert record["budget"] == {"area_mm2": 900.0, "total_power_w": 4000.0}
    assert record["answer"] == sentence(some)
    assert record["proof"] == proof(some)
    assert record["notes"] == list(notes(some))
    best = record["best"]
    assert best["system"] == as_labels(some.question.base, some.best.system)
    assert (best["system"]["endpoint"], record["space"]["endpoint"]) == ("sm", ["sm"])
    assert [one["model"] for one in best["models"]] == ["gpt2-345m", "llama2-7b"]
    gains = [
        weight / 3 * math.log(theirs["step_s"] / own["step_s"])
        for weight, own, theirs in zip((2, 1), best["models"], record["base_system"]["models"], strict=True)
    ]
    assert best["gain_frac"] == pytest.approx(math.expm1(sum(gains)))
    assert max(record[name]["gain_frac"] for name in ("plan_then_chip", "chip_then_plan")) <= best["gain_frac"] + 1e-9
    alone = codesigned_record(replace(some, base=None, separate=None))
    assert (alone["base_system"], alone["plan_then_chip"], alone["best"]["gain_frac"]) == (None, None, None)


def test_limits_that_nothing_keeps_are_told_with_the_least_that_systems_take():
    asked = question(("tied",), VALUES, budget=Budget(area_mm2=10.0))
    record = nothing_record("a system", asked)
    assert (record["feasible"], record["reason"], record["budget"]) == (False, "limits", {"area_mm2": 10.0})
    text = text_of(nothing_tables(record))
    for word in ("No system of the space keeps the limits", "mm2 and", "raise the limits"):
        assert word in text


def test_devices_that_no_plan_cuts_are_told_by_number_and_counted_in_a_proof():
    whole = replace(PLANS, pipeline_parallel=(1, 2))
    record = nothing_record("", question(("tied",), {**VALUES, "num_devices": (7, 11)}, plans=whole))
    assert (record["reason"], record["unshardable"]) == (
        "cuts",
        [{"model": "gpt2-345m", "num_devices": 7}, {"model": "gpt2-345m", "num_devices": 11}],
    )
    text = " ".join(text_of(nothing_tables(record)).split())
    assert "no plan of the space cuts gpt2-345m for 11 devices of this network" in text
    assert nothing_record("", question(("tied",), {"num_devices": (7, 8)}, plans=whole))["reason"] == "memory"
    some = report()
    found = replace(some.found, census=replace(some.found.census, num_unshardable=5))
    assert "beyond the limits, 5 that no plan cuts, " in proof(replace(some, found=found))
    assert "no plan cuts" not in proof(some)


def test_memory_that_nothing_fits_is_told_with_the_way_out():
    record = nothing_record("", question(("dense",), {"stack_gib": (1,), "hbm_stacks": (1,)}))
    assert record["reason"] == "memory"
    assert record["most_hbm_bytes"] == 2**30
    text = text_of(nothing_tables(record))
    assert "allow more HBM, more devices, or other plans" in text


def test_a_base_beyond_the_limits_is_told_with_what_it_breaks():
    some = report()
    assert some.base is not None
    tight = replace(some.question, budget=Budget(area_mm2=900.0, total_power_w=1500.0))
    base_w = some.base.num_devices * some.base.power_w
    assert base_w > 1500
    told = replace(some, question=tight)
    assert "over tpuv4-like, itself beyond the limits, with its best plan" in sentence(told)
    assert f"power of all {base_w:,.0f} of 1,500 W" in " ".join(as_text(told).split())
    assert codesigned_record(told)["base_system"]["exceeded_limits"] == ["total_power_w"]
    assert "beyond" not in sentence(some)
    assert codesigned_record(some)["base_system"]["exceeded_limits"] == []


def test_a_limit_that_nobody_said_is_told():
    some = report()
    assert "at most 900 mm2, the field" not in " ".join(as_text(some).split())
    told = replace(some, assumed=("area_mm2",))
    assert "a chip has at most 900 mm2, the field of a lithography scanner" in " ".join(as_text(told).split())
    assert codesigned_record(told)["assumed_limits"] == ["area_mm2"]
    record = nothing_record("", question(("tied",), VALUES, budget=Budget(area_mm2=1.0)), ("area_mm2",))
    assert record["assumed_limits"] == ["area_mm2"]
    assert "a chip has at most 1 mm2, the field" in " ".join(text_of(nothing_tables(record)).split())


def test_a_comparison_that_cannot_be_made_is_not_dropped_without_a_word():
    without = replace(report(), base=None, separate=None)
    assert not [note for note in notes(without) if "one search after the other" in note]
    told = replace(without, is_compared=True)
    why = "one search after the other begins with the best plan of tpuv4-like, and none fits it"
    assert why in notes(told)
    assert why in " ".join(as_text(told).split())
    assert why in codesigned_record(told)["notes"]


def test_a_million_cores_are_told_in_whole():
    some = report()
    many = replace(some, best=replace(some.best, system=some.best.system | {"num_tensor": 1_000_000.0}))
    assert ": 1,000,000 x (128x128)" in sentence(many)
    assert "e+06" not in as_text(many)


def test_a_record_says_what_was_asked_of_each_model():
    record = codesigned_record(replace(report(("tied", "dense")), asked={"models": ["a"]}))
    told = [(one["global_batch"], one["seq"], one["weight"]) for one in record["best"]["models"]]
    assert told == [(16, 256, 2.0), (16, 512, 1.0)]
    assert record["spec"] == {"models": ["a"]}


def test_even_stages_that_were_asked_for_are_said_and_leave_nothing_open_by_energy():
    some = report(metric="tokens/J")
    cases = tuple(replace(case, is_even_only=True) for case in some.question.cases)
    message = " ".join(notes(replace(some, question=replace(some.question, cases=cases))))
    assert "plans of even stages alone, as requested" in message
    assert "uneven" not in message
    assert "uneven plans of" in " ".join(notes(some))
    wide_open = replace(some, found=replace(some.found, bound=some.found.best.loss / 2))
    assert "what is open are uneven plans" in " ".join(notes(wide_open))
