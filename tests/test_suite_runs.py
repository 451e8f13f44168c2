"""The record of runs of the suite: what failed is read from the report, and a flake is told from a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.stamp import newest_result, result_file, stamp
from benchmarks.suite_runs import flakes, main, outcome_of

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
    assert outcome_of(tmp_path / "report.xml") == expected


def test_a_suite_without_a_report_has_failed(tmp_path: Path) -> None:
    assert outcome_of(tmp_path / "report.xml")["failed"] == ["the suite did not end"]


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
