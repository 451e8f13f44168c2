"""Operations are timed warm and as medians, what lacks a library is named, and all of it is one page."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dovetail as dv
from dovetail.accuracy.appraisal import NOW, Machine
from dovetail.accuracy.peer_speeds import PEER_SPEEDS
from dovetail.accuracy.prepared import TableContext
from dovetail.api import measured_sets
from dovetail.api.appraised import EXTRAS, OPERATIONS, appraised, machine, timed
from dovetail.api.requests.evidence import ValidateRequest
from dovetail.api.search_context import CallContext
from dovetail.api.timed import costing, planning, proofs
from dovetail.api.timed.operation import Operation, warm
from dovetail.api.timed.proofs import PROOFS, Proof
from dovetail.api.validated import has_published_runs, sets_of, validated
from dovetail.errors import InvalidInput
from dovetail.files.gaps import load_gaps
from dovetail.hardware.clusters import clusters
from dovetail.report.table import text_of
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


class Clock:
    """Seconds that pass when work is done, and no others."""

    def __init__(self, *takes_s: float) -> None:
        self.now_s, self.left_s, self.num_done = 0.0, list(takes_s), 0

    def __call__(self) -> float:
        return self.now_s

    def work(self) -> float:
        self.num_done += 1
        self.now_s += self.left_s.pop(0)
        return 10.0


def operation(clock: Clock, num_runs: int = 3, needs: str = "") -> Operation:
    return Operation(
        name="plans", what="ten plans", item="plans", made=lambda: warm(clock.work), num_runs=num_runs, needs=needs
    )


def around(told: list[str]) -> CallContext:
    return CallContext(tell=lambda now: told.append(f"{now.task}: {now.words}"))


def test_the_median_of_several_runs_is_told_after_one_that_does_not_count():
    clock = Clock(100.0, 3.0, 1.0, 2.0)
    found = timed(operation(clock), clock)
    assert (found.per_item_s, found.num_runs, clock.num_done) == (0.2, 3, 4)
    assert [peer.peer for peer in found.peers] == ["Calculon"]


def test_what_lacks_its_library_is_named_and_not_tried():
    clock, told = Clock(1.0, 1.0, 1.0, 1.0), list[str]()
    proof = Proof(what="a schedule", gaps_frac=lambda: pytest.fail("tried"), needs="ortools")
    found = appraised(
        around(told), (operation(clock), operation(clock, needs="numba")), (proof,), clock=clock, has=lambda _: False
    )
    assert len(found.speeds) == 1
    assert [one.what for one in found.not_measured] == ["ten plans", "a schedule"]
    assert "Numba is not installed" in found.not_measured[0].why
    assert "pip install 'dovetail-codesign[mine]'" in found.not_measured[1].why
    assert told == ["timing operations: 0 of 1"]


def test_proven_gaps_stand_before_those_that_ship():
    proof = Proof(what="a plan", gaps_frac=lambda: [0.0, 0.5])
    found = appraised(around([]), (), (proof,))
    assert found.gaps[0].what == "a plan"
    assert (found.gaps[0].worst_frac, found.gaps[0].source) == (0.5, NOW)
    assert found.gaps[1:] == load_gaps()


def test_every_operation_has_a_peer_and_every_peer_an_operation():
    assert {one.operation for one in PEER_SPEEDS} == {one.name for one in OPERATIONS}
    assert {one.needs for one in (*OPERATIONS, *PROOFS)} <= {"", *EXTRAS}


def test_operators_and_chips_are_as_many_as_the_page_says():
    ops, columns = costing.layer_operators(), costing.phaze_columns()
    [said] = costing.OPERATIONS
    assert f"{len(ops)} operators on {len(columns):,} chips" == said.what


def test_plans_that_are_timed_nest_in_the_network():
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=2048)
    plans = planning.some_plans(workload.training_graph(), clusters["dgx-a100"].build(16), num_plans=100)
    assert len(plans) > 0


def test_recorded_placements_are_met_and_a_list_schedule_is_near_its_bound():
    by_name = {proof.what: proof for proof in proofs.PROOFS}
    placements = by_name["placements recorded by PHAZE's program"].gaps_frac()
    assert len(placements) == 4
    assert max(placements) < 1e-9
    [gap_frac] = by_name["list schedule of a BERT-large layer"].gaps_frac()
    assert 0 <= gap_frac < 0.05


def test_the_machine_is_this_one():
    found = machine()
    assert found.num_cores >= 1
    assert found.python.startswith("3.")
    assert len(found.date) == len("2026-01-31")


@pytest.fixture(scope="module")
def whole():
    clock = Clock(1.0, 1.0, 1.0, 1.0)
    proof = Proof(what="a plan", gaps_frac=lambda: [0.0, 0.5])
    return validated(
        ValidateRequest(target=("dies",), all=True),
        around([]),
        lambda own: appraised(own, [operation(clock)], [proof], clock=clock),
    )


def test_the_whole_is_the_comparison_with_speeds_and_gaps_beside(whole):
    plain = dv.validate("dies").record
    assert whole.record["sets"] == plain["sets"]
    assert whole.fits == plain["holds"]
    assert not {"machine", "speeds", "gaps", "not_measured"} & set(plain)
    [speed] = whole.record["speeds"]
    assert speed["per_item_s"] == 0.1
    assert speed["peers"][0]["times"] == pytest.approx(1 / 158 / 0.1)
    assert whole.record["gaps"][0]["num_best"] == 1


def test_the_page_has_a_line_a_set_an_operation_and_a_gap_in_80_columns(whole):
    text = text_of(whole.tables)
    assert max(map(len, text.splitlines())) <= 80
    rows = [line.split() for line in text.splitlines()]
    assert [row[:3] for row in rows if row[:2] == ["die", "area"]] == [["die", "area", "5"]]
    assert any(row[:3] == ["ten", "plans", "10.0/s"] and row[-2:] == ["Calculon,", "run"] for row in rows)
    assert any(row == ["a", "plan", "2", "1", "25", "50", "now"] for row in rows)
    titles = [section.title for section in whole.page.sections]
    assert {"Speed", "Gaps"} <= {title.split()[0] for title in titles}


def test_every_set_is_asked_for_by_all_and_published_runs_among_them():
    quick, whole = ValidateRequest(), ValidateRequest(all=True)
    assert sets_of(whole) == (*sets_of(quick)[:-1], "published", "published-gemm")
    assert has_published_runs(whole)
    assert not has_published_runs(quick)


@pytest.mark.parametrize("said", [{"chip": "h100-sxm"}, {"dtype": "fp8"}, {"profile": "trace.json"}])
def test_what_is_promised_is_promised_of_the_sets_as_they_are(said):
    [option] = said
    with pytest.raises(InvalidInput, match=f"leave out {option}, or all"):
        dv.validate(all=True, **said)


def test_another_machine_is_another_page(whole):
    [appraisal] = whole.appraisal
    other = Machine(num_cores=64, processor="arm64", python="3.13.1", numpy="2.3.0", date="2026-01-31")
    moved = replace(whole, appraisal=(replace(appraisal, machine=other),))
    assert "speed: 64 cores, arm64, Python 3.13.1, NumPy 2.3.0, 2026-01-31" in str(moved)


@pytest.mark.parametrize(("folder", "has_note"), [("", True), ("runs", False)])
def test_rows_that_join_a_set_and_are_not_here_are_named(monkeypatch, tmp_path, folder, has_note):
    (tmp_path / "runs").mkdir()
    table = "m,n,k,time_us\n64,64,64,5\n"  # of another kind, which is as good to be found
    (tmp_path / "runs" / "more.csv").write_text(table, encoding="utf-8")
    monkeypatch.setitem(measured_sets.BESIDE, "array-sims", ("more.csv",))
    monkeypatch.setenv("DOVETAIL_REFERENCE_DATA", str(tmp_path / folder))
    found = measured_sets.Found()
    measured_sets.look_up("array-sims", TableContext(), found, is_asked=False, does_name_absent=True)
    assert any(note.startswith("more skipped: its rows are not shipped") for note in found.notes) == has_note
    assert any(one.name == "more" for one in found.sets) == (not has_note)
