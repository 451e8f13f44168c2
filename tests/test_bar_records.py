"""Records of bars: the youngest is read, one source is replaced and others are kept, and pages can quote them."""

from __future__ import annotations

import json

import pytest

from benchmarks import bar_records
from benchmarks.bar import Bar
from benchmarks.bars import bar_sources

STAMP = {"commit": "abc", "date": "2026-01-02", "machine": "linux-x86_64-2cpu", "python": "3.11.7"}


def bar(name: str, measured: str) -> Bar:
    return Bar(name=name, issue=1, bar="reported", measured=measured, holds=None, note="no bar was set")


def test_a_source_measured_anew_replaces_its_own_record_and_no_other():
    known = bar_records.with_bars({}, "b", [bar("two", "2 s")], STAMP)
    known = bar_records.with_bars(known, "a", [bar("one", "1 s")], STAMP)
    known = bar_records.with_bars(known, "b", [bar("two", "3 s")], STAMP | {"commit": "def"})
    assert list(known) == ["a", "b"]
    assert [known[name]["commit"] for name in known] == ["abc", "def"]
    assert [one["measured"] for one in known["b"]["bars"]] == ["3 s"]


def test_the_youngest_record_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.stamp.RESULTS", tmp_path)
    for day, words in (("2026-01-02", "old"), ("2026-01-03", "young")):
        known = bar_records.with_bars({}, "a", [bar("one", words)], STAMP)
        (tmp_path / f"bars_machine_{day}.json").write_text(json.dumps(known), encoding="utf-8")
    assert bar_records.measured() == {"one": "young"}
    assert bar_records.notes() == {"one": "no bar was set"}


def test_what_is_recorded_is_of_sources_that_there_are_and_says_when_and_where():
    known = bar_records.records()
    assert known.keys() <= bar_sources().keys()
    for one in known.values():
        assert one.keys() == {*STAMP, "bars"}
        assert one["bars"]


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        bar_records.main(["no-such-bar"])
    assert "invalid choice: 'no-such-bar'" in capsys.readouterr().err
