"""On NEST's system our planner gains at least what NEST reports over the manual placements that it is compared with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dovetail.hardware.catalog import chips
from dovetail.papers.nest import CASES, nest_study
from dovetail.papers.phaze import Joint, OtherSearches, expert_placement, phaze_study
from dovetail.papers.phaze_cases import CASES as PHAZE_CASES
from dovetail.papers.phaze_cases import PUBLISHED
from dovetail.papers.phaze_claims import Phaze
from dovetail.papers.published_plans import best_on_terms
from dovetail.report.papers.phaze import phaze_record, phaze_tables
from dovetail.report.table import text_of
from tests.e2e.conftest import ROOT
from tests.e2e.test_reference import keys

PLACEMENTS = ROOT / "benchmarks" / "results" / "phaze.json"
MOVED_FRAC = 1e-3  # style: a tolerance; less than the last digit that the page shows
QUICK = [case for case in CASES if case.name == "BERT-large"]  # all five are a bar


@pytest.fixture(scope="module")
def rows():
    return list(nest_study(QUICK))


def test_our_gain_over_manual_is_at_least_nests(rows):
    assert [row.case.name for row in rows if not row.check.holds] == []


def test_a_better_baseline_leaves_less_to_gain_and_more_freedom_more(rows):
    for row in rows:
        rates = [getattr(row, name).sequences_per_s for name in ("manual", "even", "tuned", "ours", "free")]
        assert rates == sorted(rates)
        assert row.in_phaze_space.sequences_per_s <= row.ours.sequences_per_s


def test_plans_are_proven_best_but_for_a_hundredth(rows):
    assert all(row.ours.gap_frac <= 0.01 for row in rows)


def check_is_as_recorded(record):
    """Rows that were searched now have the throughputs of the run that docs/model/phaze.md shows."""
    recorded = json.loads(PLACEMENTS.read_text(encoding="utf-8"))
    terms = {(row["model"], row["terms"]): row for row in recorded["models"]}
    models = [(row[by], terms[row["model"], row["terms"]][by]) for row in record["models"] for by in ("expert", "ours")]
    known = {row["model"]: row for row in recorded["nest"]}
    nest = [
        pair
        for row in record["nest"]
        for pair in zip(row["placements"], known[row["model"]]["placements"], strict=True)
    ]
    moved = f"moved from what {PLACEMENTS.name} has; record it again as docs/model/phaze.md says"
    for now, before in (*models, *nest):
        assert now["sequences_per_s"] == pytest.approx(before["sequences_per_s"], rel=MOVED_FRAC), moved


def test_our_plan_in_phazes_space_is_no_worse_than_its_experts_and_every_key_is_explained(rows):
    def joint(case, terms, _mapper) -> Joint:
        """Not searched here: what is looked at are the words for it."""
        counts = {"num_chips": 4, "num_evaluated": 1, "num_pruned": 2, "num_infeasible": 1}
        found = expert_placement(case, terms)
        assert found is not None
        rate = found.sequences_per_s
        return Joint(
            chip=chips["phaze-tpuv4"](),
            found=found,
            beside=OtherSearches(
                searched_sequences_per_s=rate,
                plan_then_chip_sequences_per_s=rate,
                chip_then_plan_sequences_per_s=rate,
                stopped_chips=2,
                stopped_sequences_per_s=rate,
            ),
            **counts,
        )

    [bert] = [case for case in PHAZE_CASES if case.name == "BERT-large"]
    compared = list(phaze_study(best_on_terms, joint, [bert], [PUBLISHED]))
    assert compared[0].placement_gain is not None
    assert compared[0].placement_gain >= 1
    compared = [replace(one, real=one) for one in compared]
    both = Phaze(
        ours=tuple(compared), by_paper_mapper=tuple(compared), nest=tuple(rows), nest_by_paper_mapper=tuple(rows)
    )
    record = phaze_record(both)
    check_is_as_recorded(record)
    [row] = record["nest"]
    rates = {one["placement"]: one["sequences_per_s"] for one in row["placements"]}
    over_even = rates["ours"] / rates["even"]
    for reported_gain in (0.99 * over_even, 1.01 * over_even):  # less than ours over even stages, and more
        text = text_of(phaze_tables({**record, "nest": [{**row, "reported_gain": reported_gain}]}), 120)
        assert "BERT-large" in text
        assert ("Over even stages no plan gains" in text) == (reported_gain > over_even)
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(record) if f"`{key}`" not in page} == set()
