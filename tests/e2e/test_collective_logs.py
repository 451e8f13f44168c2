"""Broken logs of collectives from the command line: one line and exit code 2, or the good rows scored."""

from __future__ import annotations

import json

from tests.collective_logs import GOOD, KEPT, REFUSED


def test_broken_logs_are_refused_in_one_line(dovetail, tmp_path):
    file = tmp_path / "log.txt"
    for name, (text, word) in REFUSED.items():
        file.write_text(text, encoding="utf-8")
        ran = dovetail("validate", str(file))
        assert ran.returncode == 2, name
        assert ran.stdout == "", name
        assert ran.stderr.count("\n") == 1, name
        assert word in ran.stderr, name


def test_good_rows_of_broken_logs_are_scored(dovetail, tmp_path):
    file = tmp_path / "log.txt"
    for name, (text, count, _) in KEPT.items():
        file.write_text(text, encoding="utf-8")
        ran = dovetail("validate", str(file), "--json")
        assert ran.returncode == 0, name
        assert json.loads(ran.stdout)["sets"][0]["scores"][0]["num_rows"] == count, name


def test_a_log_is_scored_on_the_screen_by_buffers(dovetail, tmp_path):
    file = tmp_path / "all_reduce.txt"
    file.write_text(GOOD, encoding="utf-8")
    ran = dovetail("validate", str(file))
    assert ran.returncode == 0
    assert "out-of-place" in ran.stdout
    assert "in-place" in ran.stdout
