"""The bars of the redesign: what each reads, when it holds and when it was not tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import against_base
from benchmarks.against_base import HELP, OPERATIONS, SIDES, Side, help_summary, pairs, summary, table
from benchmarks.bar import REPOSITORY
from benchmarks.bar_redesign import (
    base_bar,
    latest_sample,
    memory_bar,
    mutants_bar,
    protocol_bar,
    size_bar,
    speed_bars,
    vocabulary_bar,
    walk_bar,
)
from benchmarks.timed_operation import measured, operations
from tests.test_vocabulary import replaced_names

CHANGELOG = "## Unreleased\n\n## 0.1.0 - 2026-11-16\n"


def pair(cpu_s: float, peak_bytes: float = 1e8) -> dict[str, dict[str, float]]:
    """A base that does 10 things in 1 CPU second with 100 MB, and a side that takes `cpu_s` and `peak_bytes`."""
    base = {"cpu_s": 1.0, "num_done": 10.0, "peak_bytes": 1e8}
    return {"base": base, "now": {"cpu_s": cpu_s, "num_done": 10.0, "peak_bytes": peak_bytes}}


def result(cpu_s: float = 1.0, peak_bytes: float = 1e8, help_s: float = 0.1) -> dict[str, Any]:
    helped = help_summary([{side: {"wall_s": help_s, "cpu_s": help_s} for side in SIDES}])
    return {
        "commit": "abc", "base": "0" * 40, "base_version": "0.1.0", "date": "2026-11-17", "num_pairs": 1,
        "load_per_core": 0.1, "operations": {name: summary([pair(cpu_s, peak_bytes)]) for name in OPERATIONS},
        HELP: helped,
    }  # fmt: skip


def test_the_base_of_the_example_keeps_its_limits():
    assert base_bar().holds


def test_a_base_beyond_a_limit_misses(tmp_path):
    file = REPOSITORY / "examples" / "codesign-two-models.yaml"
    text = file.read_text(encoding="utf-8")
    assert "budget: base " in text
    (tmp_path / "tight.yaml").write_text(text.replace("budget: base ", "budget: {power: 300 W} "))
    assert base_bar(tmp_path / "tight.yaml").holds is False


def test_the_fullest_example_is_named_and_leaves_memory_free():
    bar = memory_bar()
    assert bar.holds
    assert float(bar.measured.partition("%")[0]) <= 96


def test_the_bar_of_names_counts_what_the_test_of_the_vocabulary_finds(monkeypatch):
    monkeypatch.setattr("benchmarks.bar_redesign.replaced_names", lambda _: ["a.py: class Old, now New"])
    assert (vocabulary_bar().measured, vocabulary_bar().holds) == ("1", False)
    monkeypatch.setattr("benchmarks.bar_redesign.replaced_names", lambda _: replaced_names(()))
    assert (vocabulary_bar().measured, vocabulary_bar().holds) == ("0", True)


def test_size_is_reported_beside_the_release():
    bar = size_bar()
    assert bar.holds is None
    assert "97,792 in 943" in bar.note


def test_a_walk_that_is_not_here_is_not_tried():
    bar = walk_bar("benchmarks.no_such_walk")
    assert bar.holds is None
    assert "111 and 24" in bar.note


def test_no_record_of_speeds_is_not_tried():
    bars = list(speed_bars(None))
    assert len(bars) == len(OPERATIONS) + 2
    assert all(bar.holds is None and "--record" in bar.note for bar in bars)


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({}, 0),
        ({"cpu_s": 1.05}, 0),  # 0.952 of the base's speed
        ({"cpu_s": 1.06}, len(OPERATIONS)),
        ({"peak_bytes": 1.06e8}, 1),
        ({"help_s": 0.2}, 1),
    ],
)
def test_speed_memory_and_help_have_a_bar_each(change, missed):
    assert [bar.holds for bar in speed_bars(result(**change))].count(False) == missed


def test_a_busy_machine_is_named():
    assert all("load 3.0 per core" in bar.note for bar in speed_bars(result() | {"load_per_core": 3.0}))


def test_the_median_of_pairs_counts_and_more_done_in_the_same_time_is_faster():
    found = summary([pair(1.0), pair(2.0), pair(0.5)])
    assert found["speed_ratio"] == 1.0
    assert found["speed_ratios"] == [1.0, 0.5, 2.0]
    assert found["best_speed_ratio"] == 2.0
    more = pair(1.0)
    more["now"]["num_done"] = 20.0
    assert summary([more])["speed_ratio"] == 2.0


def test_pairs_alternate_which_side_goes_first(monkeypatch, tmp_path):
    order = []

    def noted(side: Side, name: str, folder: Path) -> dict[str, float]:
        order.append(side.package.name)
        return {"cpu_s": 1.0}

    monkeypatch.setattr(Side, "measured", noted)
    sides = {name: Side(package=Path(name)) for name in SIDES}
    assert all(list(one) == list(SIDES) for one in pairs("plans", sides, tmp_path, 3))
    assert order == ["base", "now", "now", "base", "base", "now"]


def test_a_side_is_timed_in_a_process_of_its_own(tmp_path):
    found = Side(package=REPOSITORY / "src").measured(HELP, tmp_path)
    assert found["cpu_s"] > 0
    assert found["wall_s"] > 0
    with pytest.raises(RuntimeError, match="no_such_operation ended with 1"):
        Side(package=REPOSITORY / "src").measured("no_such_operation", tmp_path)


def test_operations_that_are_compared_are_those_of_the_package():
    names = {one.name for one in operations()}
    assert set(OPERATIONS) <= names


def test_an_operation_gives_time_count_and_memory():
    found = measured("events")
    assert found["num_done"] > 1e6
    assert found["cpu_s"] > 0
    assert found["peak_bytes"] > 1e7


def test_the_table_has_a_line_for_each_operation_and_help():
    lines = table(result()).splitlines()
    assert len(lines) == 1 + len(OPERATIONS) + 1
    assert "1.000, of the best runs 1.000; memory 95 MiB" in lines[1]


def test_only_a_run_of_everything_is_recorded(capsys):
    for words, reason in ((["--pairs", "0"], "at least 1"), (["x"], "known:")):
        with pytest.raises(SystemExit):
            against_base.main(words)
        assert reason in capsys.readouterr().err


def test_the_base_is_a_commit_with_the_module_that_lists_its_operations():
    facts = json.loads(against_base.BASE.read_text(encoding="utf-8"))
    assert len(facts["commit"]) == 40
    assert facts["version"] == "0.1.0"


@pytest.mark.parametrize(("num_killed", "holds"), [(84, False), (85, True)])
@pytest.mark.parametrize("package", ["step", "schedule"])
def test_step_time_has_a_bar_of_mutants_of_its_own(package, num_killed, holds):
    by_package = {"cost": {"tried": 9, "killed": 9}, package: {"tried": 100, "killed": num_killed}}
    results = {"by_package": by_package, "sources": "today", "date": "2026-11-17", "commit": "abc"}
    assert mutants_bar(results, "today").holds is holds
    of_other = mutants_bar(results, "other")
    assert of_other.holds is None
    assert "of older code" in of_other.note


def test_a_record_of_mutants_without_step_time_is_not_tried():
    assert mutants_bar({"by_package": {"cost": {"tried": 9, "killed": 9}}}, "today").holds is None


def test_a_protocol_counts_when_it_is_younger_than_the_release(tmp_path):
    assert protocol_bar("drill", tmp_path, CHANGELOG).holds is None
    (tmp_path / "2026-11-16-drill.md").touch()
    (tmp_path / "2026-11-18-questions.md").touch()
    assert protocol_bar("drill", tmp_path, CHANGELOG).holds is None
    (tmp_path / "2026-11-17-drill.md").touch()
    bar = protocol_bar("drill", tmp_path, CHANGELOG)
    assert (bar.holds, bar.measured) == (True, "2026-11-17-drill.md")


def test_the_sample_that_was_tried_last_is_told():
    first, by_package = {"date": "2026-11-17"}, {"step": {"tried": 4, "killed": 3}}
    assert latest_sample(first) == first
    old = first | {"checked": {"commit": "0"}}  # of a record that had no packages
    assert latest_sample(old) == old
    for day, is_later in (("2026-11-18", True), ("2026-11-16", False)):
        beside = {"date": day, "by_package": by_package}
        assert (latest_sample(first | {"checked": beside}) == beside) == is_later
