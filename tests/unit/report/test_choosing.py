from __future__ import annotations

import json

import numpy as np
import pytest

from dovetail.accuracy.coverage import Coverage, JudgedCoverage
from dovetail.accuracy.prepared import Decision, Prepared
from dovetail.accuracy.validation import Validation, scored_set, validation
from dovetail.files.validation_results import load_results
from dovetail.hardware.catalog import chips
from dovetail.report.accuracy import accuracy_tables, judged_once, validation_record
from dovetail.report.accuracy_page import accuracy_page
from dovetail.report.choosing import choosing_tables
from dovetail.report.table import text_of

KINDS = ("vTrain, many nodes",) * 5 + ("B",) * 5
MEASURED = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 1.1, 1.2, 1.3, 1.4])
PREDICTED = np.array([1.1, 2.2, 3.3, 4.4, 5.5, 1.4, 1.3, 1.2, 1.1, 1.0])
DECISIONS = (
    Decision(kind="B", has_run=True, fits=True),
    Decision(kind="B", has_run=True, fits=False),
    Decision(kind="B", has_run=False, fits=True),
    Decision(kind="C", has_run=False, fits=False),
)


def prepared(**changes: object) -> Prepared:
    columns = {
        "name": "runs",
        "chip": chips["h200-sxm"](),
        "unit": "s",
        "kinds": KINDS,
        "whats": tuple(str(row) for row in range(10)),
        "measured": MEASURED,
        "predicted": lambda _: PREDICTED,
        "promise": "published training",
        "is_of_chip": False,
        "groups": ("a",) * 5 + ("b",) * 5,
        "decisions": DECISIONS,
    }
    return Prepared(**columns | changes)  # type: ignore[arg-type]


FOUND = scored_set(prepared())
RECORD = validation_record(Validation(sets=(FOUND,)))


def test_sets_of_plans_are_scored_by_publisher_with_ranks_and_one_factor():
    whole, other, vtrain = FOUND.scored
    assert [scored.kind for scored in FOUND.scored] == ["", "B", "vTrain, many nodes"]
    assert [vtrain.ranking.spearman, other.ranking.spearman] == pytest.approx([1.0, -1.0])
    assert whole.ranking.spearman == pytest.approx(0.0)
    assert other.ranking.regret_frac == pytest.approx(0.4)
    assert 0 < vtrain.one_scalar.mape_frac < 0.01  # of 10 % that all its rows share
    assert whole.one_scalar.num_rows == 10


def test_a_bar_of_one_kind_is_judged_where_a_set_has_that_kind_alone():
    rows = {"kinds": ("eager",) * 10, "promise": "h200 code", "groups": (), "decisions": ()}
    whole, eager = scored_set(prepared(**rows)).scored
    assert [one.bar.statistic for one in whole.judged] == ["worst"]
    assert [(one.bar.kind, one.bar.limit_frac) for one in eager.judged] == [("eager", 0.03)]
    assert [scored.kind for scored in scored_set(prepared(**rows | {"promise": ""})).scored] == [""]


def test_a_set_whose_rows_are_nothing_to_choose_between_has_neither():
    record = validation_record(Validation(sets=(scored_set(prepared(groups=(), decisions=())),)))
    assert "ranking" not in record["sets"][0]["scores"][0]
    assert choosing_tables(record) == []


def test_decisions_on_memory_are_counted_false_and_missed():
    whole, b, c = FOUND.memory_verdicts
    assert (whole.num_ran, whole.num_false, whole.num_failed, whole.num_missed) == (2, 1, 2, 1)
    assert (b.kind, b.num_missed, c.kind, c.num_missed) == ("B", 1, "C", 0)


def test_a_peer_stands_beside_us_on_the_rows_of_its_publishers_alone():
    [beside] = FOUND.peers
    assert (beside.peer.name, beside.num_rows) == ("Calculon", 5)
    assert beside.mape_frac == pytest.approx(0.1)
    assert scored_set(prepared(promise="")).peers == ()


def test_the_tables_show_what_the_record_holds_in_eighty_columns():
    text = text_of(accuracy_tables(RECORD))
    for words in (
        "choosing among plans",
        "-1.00",
        "does it fit",
        "15.0 to 20.0",
        "Calculon",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 80
    page = accuracy_page(RECORD, is_whole=True)
    assert "## Against other predictors" in page
    assert "| vTrain, many nodes | 5 | 10.0 | 15.0 to 20.0 | Calculon |" in page


def test_bars_on_choosing_are_judged_by_publisher_and_shown():
    found = {(choice.kind, choice.statistic): choice for choice in FOUND.choices}
    assert found["vTrain, many nodes", "Spearman"].holds
    assert found["vTrain, many nodes", "worst regret"].measured == 0.0
    assert not found["", "one factor"].holds  # half of the rows are told the other way round
    assert found["", "decided"].measured == pytest.approx(0.5)
    assert ("B", "Spearman") not in found  # nothing is promised of it
    assert RECORD["holds"] is False
    text = text_of(accuracy_tables(RECORD))
    assert "bars on choosing" in text
    assert "MISSED" in text
    assert "## Bars on choosing" in accuracy_page(RECORD, is_whole=True)


def test_a_set_of_one_publisher_is_judged_as_that_publisher():
    alone = scored_set(prepared(kinds=("BLOOM's tuning",) * 10, decisions=()))
    assert {(choice.kind, choice.statistic) for choice in alone.choices} == {
        ("BLOOM's tuning", statistic) for statistic in ("Spearman", "regret", "worst regret")
    }
    assert scored_set(prepared(promise="")).choices == ()


def test_recorded_results_come_back_as_they_were(tmp_path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(RECORD), encoding="utf-8")
    loaded = load_results(file)
    assert text_of(accuracy_tables(loaded)) == text_of(accuracy_tables(RECORD))


def test_promises_and_peers_without_rows_are_told_to_be_unjudged():
    shown = " ".join(text_of(accuracy_tables(validation_record(Validation(sets=(FOUND,))))).split())
    assert "vTrain, one node Spearman 0 - >= 0.90 not judged: no rows" in shown
    assert "small models, one node 0 - 51.0 Calculon; not judged: no rows" in shown
    assert scored_set(prepared(promise="")).not_judged == ()
    alone = prepared(kinds=("vTrain, one node",) * len(KINDS), name="more")
    both = validation([prepared(), alone])
    assert {one.kind for one in both.sets[0].not_judged} == {"BLOOM's tuning"}  # the other set has the rest
    assert "small models, one node" not in {peer.what for peer in both.sets[0].peers_without_rows}


def test_what_a_recorded_set_has_rows_of_is_judged_there():
    alone = validation([prepared(kinds=("vTrain, one node",) * len(KINDS), name="more")])
    now, recorded = (validation_record(one)["sets"][0] for one in (Validation(sets=(FOUND,)), alone))
    both = judged_once([now, recorded])
    assert both == judged_once([recorded, now])[::-1]
    assert {left["kind"] for left in now["not_judged"]} > {left["kind"] for left in both[0]["not_judged"]}
    assert "vTrain, one node" not in {left["kind"] for one in both for left in one["not_judged"]}
    assert "small models, one node" not in {peer["what"] for one in both for peer in one["peers_without_rows"]}
    assert [one["choices"] for one in both] == [now["choices"], recorded["choices"]]


def test_what_intervals_cover_stands_beside_its_bar():
    covered = Coverage(num_rows=40, covered_frac=0.8, width_frac=0.5)
    missed = Validation(sets=(), coverage=(JudgedCoverage(left_out="a publisher", coverage=covered),))
    assert not missed.holds
    shown = " ".join(text_of(accuracy_tables(validation_record(missed))).split())
    assert "a publisher 40 80.0 50.0 85.0 to 95.0 MISSED" in shown
