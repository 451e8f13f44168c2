from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

import benchmarks
from benchmarks.bar import Bar, reference_data
from benchmarks.bars import bar_sources, main, table


def bar(holds: bool | None, note: str = "") -> Bar:
    return Bar(name="step time", issue=3, bar="within 10 %", measured="7.2 %", holds=holds, note=note)


def broken() -> Iterator[Bar]:
    yield bar(True)
    raise RuntimeError("no chip")


def test_the_table_shows_each_bar_with_its_verdict_and_counts_them():
    text = table([bar(True), bar(False, "too slow"), bar(None, "no reference data")])
    assert "#3     step time  within 10 %  7.2 %     holds\n" in text
    assert "misses (too slow)\n" in text
    assert "skipped (no reference data)\n" in text
    assert text.endswith("3 bars: 1 hold, 1 miss, 1 skipped")


def test_a_skipped_bar_must_say_why():
    with pytest.raises(AssertionError, match="without saying why"):
        bar(None)


def test_a_miss_fails_only_when_strict(capsys):
    assert main([], {"x": lambda: [bar(False)]}) == 0
    assert main(["--strict"], {"x": lambda: [bar(False)]}) == 1
    assert main(["--strict"], {"x": lambda: [bar(True), bar(None, "later")]}) == 0


def test_a_source_that_raises_is_a_miss_and_the_others_still_run(capsys):
    assert main(["--strict"], {"a": broken, "b": lambda: [bar(True)]}) == 1
    out = capsys.readouterr().out
    assert "misses (raised RuntimeError: no chip)" in out
    assert out.endswith("3 bars: 2 hold, 1 miss, 0 skipped\n")


def test_json_holds_every_field(capsys):
    main(["--json", "x"], {"x": lambda: [bar(None, "later")], "y": broken})
    assert json.loads(capsys.readouterr().out) == [
        {"name": "step time", "issue": 3, "bar": "within 10 %", "measured": "7.2 %", "holds": None, "note": "later"}
    ]


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["z"], {"x": broken})
    assert "no bars are named z; known: x" in capsys.readouterr().err


def test_saving_a_bar_module_is_all_it_takes_to_be_found(tmp_path, monkeypatch):
    (tmp_path / "bar_sample.py").write_text(
        "from benchmarks.bar import Bar\ndef bars():\n"
        "    yield Bar(name='n', issue=1, bar='b', measured='m', holds=True)\n"
    )
    monkeypatch.setattr(benchmarks, "__path__", [str(tmp_path)])
    [(name, source)] = bar_sources().items()
    assert name == "sample"
    assert [found.name for found in source()] == ["n"]
    monkeypatch.delitem(sys.modules, "benchmarks.bar_sample")


def test_reference_data_is_looked_for_in_the_variable_then_beside_the_repository(tmp_path):
    beside, named = tmp_path / "shared" / "data", tmp_path / "named"
    (beside / "h200").mkdir(parents=True)
    named.mkdir()
    repository = tmp_path / "repository"
    assert reference_data("h200", {}, repository) == beside / "h200"
    assert reference_data("absent", {}, repository) is None
    assert reference_data("", {"DOVETAIL_REFERENCE_DATA": str(named)}, repository) == named
    assert reference_data("h200", {"DOVETAIL_REFERENCE_DATA": str(named)}, repository) is None
