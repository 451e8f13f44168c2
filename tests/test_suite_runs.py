"""The record of runs of the suite: what failed is read from the report, and a flake is told from a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bar_release import suite_bars
from benchmarks.stamp import newest_result, result_file, stamp
from benchmarks.suite_runs import flakes, main, of_last_commit, outcome_of

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="passes"/>
<testcase classname="tests.a" name="fails"><failure message="no"/></testcase>
<testcase classname="tests.a" name="breaks"><error message="no"/></testcase>
<testcase classname="tests.a" name="waits"><skipped message="no Chromium"/></testcase>
</testsuite></testsuites>"""


def run(commit: str, *failed: str) -> dict[str, object]:
    return {"commit": commit, "failed": list(failed)}


def test_failures_and_errors_are_named_and_skips_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    expected = {"passed": 1, "skipped": 1, "failed": ["tests.a::breaks", "tests.a::fails"]}
    assert outcome_of(tmp_path / "report.xml", 1) == expected


@pytest.mark.parametrize("code", [2, 3, 4, 5, -9])
def test_a_suite_that_did_not_end_has_failed_whatever_it_reports(tmp_path: Path, code: int) -> None:
    (tmp_path / "report.xml").write_text(REPORT, encoding="utf-8")
    message = f"the suite did not end: pytest's exit code is {code}"
    assert outcome_of(tmp_path / "report.xml", code) == {"passed": 0, "skipped": 0, "failed": [message]}
    assert outcome_of(tmp_path / "absent.xml", 0)["failed"]


def clean(**other: object) -> dict[str, object]:
    usual = {"commit": "a", "machine": "linux-2cpu", "passed": 9, "skipped": 0, "failed": [], "seconds": 500.0}
    return usual | other


@pytest.mark.parametrize(
    ("runs", "holds"),
    [
        ([clean()] * 10, [True, True]),
        ([clean()] * 9, [True, False]),
        ([clean(failed=["x"])] * 10, [True, False]),
        ([clean()] * 9 + [clean(failed=["x"])], [True, False]),
        ([clean(passed=0)] * 10, [True, False]),
        ([clean()] * 9 + [clean(passed=8, skipped=1)], [True, False]),
        ([clean(seconds=1200.0)] * 9 + [clean(seconds=500.0)], [False, True]),
        ([clean(machine="linux-64cpu")] * 10, [None, True]),
        ([clean()] * 9 + [clean(commit="b")], [True, False]),
    ],
)
def test_the_bars_hold_for_ten_clean_runs_of_one_commit_alone(runs, holds) -> None:
    assert [bar.holds for bar in suite_bars(of_last_commit(runs))] == holds


def test_a_trial_of_some_tests_is_not_recorded_as_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tests/test_suite_runs.py"])
    assert "a trial of some tests is no run of the suite" in capsys.readouterr().err


def test_a_test_that_fails_in_some_runs_of_a_commit_is_a_flake_and_one_that_fails_in_all_is_not() -> None:
    assert flakes([run("a", "x", "y"), run("a", "x"), run("b"), run("b", "z"), run("c", "w")]) == ["y", "z"]
    assert flakes([run("a", "x"), run("b")]) == []


def test_a_result_says_its_commit_machine_and_day_and_is_found_by_them() -> None:
    facts = stamp()
    assert set(facts) == {"commit", "date", "machine", "python"}
    assert result_file("suite").name == f"suite_{facts['machine']}_{facts['date']}.json"
    assert newest_result("no such thing") is None


def test_no_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--times", "0"])
    assert "--times must be at least 1; got 0" in capsys.readouterr().err
