"""Recorded reproductions of WHAM and PHAZE: both mappers, a verdict for every claim, and bars that read them."""

from __future__ import annotations

import pytest

from benchmarks import bar_papers
from benchmarks.paper_records import PAPERS, recorded
from dovetail.papers.verdicts import accepted


@pytest.mark.parametrize("paper", PAPERS)
def test_a_recorded_verdict_follows_from_its_recorded_figures(paper):
    record = recorded(paper)
    assert [one["mapper"] for one in record["mappers"]] == ["paper", "ours"]
    for claim in record["claims"]:
        assert claim["why"]
        if claim["verdict"] == "not comparable":
            continue
        low, high = accepted(tuple(claim["reported"]), is_floor=claim["is_floor"])
        is_met = low <= claim["paper_mapper"] <= high
        assert claim["verdict"] == ("reproduced" if is_met else "not reproduced"), claim["what"]
        assert claim["readings"][0]["paper_mapper"] == claim["paper_mapper"]


def test_a_claim_without_a_verdict_misses_the_bar(monkeypatch):
    record = recorded("wham")
    record["claims"][0]["verdict"] = ""
    monkeypatch.setattr(bar_papers, "recorded", lambda _: record)
    monkeypatch.setattr(bar_papers, "times", lambda: {"wham": {"cpu_s": 901, "date": "2026-11-17"}})
    judged, timed, *_, untimed = bar_papers.bars()
    assert (judged.holds, timed.holds, untimed.holds) == (False, False, None)
    assert "901 CPU-s" in timed.measured
