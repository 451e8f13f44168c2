"""The harness that times commands and calls: what it keeps, reads back and compares. Nothing here is timed itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks import speeds, speeds_kept
from benchmarks.speeds import Speed, main, measured
from benchmarks.speeds_kept import Speeds, Timed, earlier_speeds, gains, processor, read_speeds, table, write_speeds
from benchmarks.stamp import RESULTS, machine

ABOUT = {
    "commit": "abc1234",
    "date": "2026-11-16",
    "time": "03:00:00",
    "machine": machine(),
    "processor": "a processor",
    "python": "3.11.7",
}


def kept(cpu_s: float, **about: str) -> Speeds:
    timed = (Timed(name="evaluate", what="one", cpu_s=cpu_s, num_runs=5),)
    return Speeds(about=ABOUT | about, timed=timed)


def test_what_is_written_is_read_back_as_it_was(tmp_path):
    file = write_speeds(kept(0.05), tmp_path)
    assert file.name == f"speeds_{machine()}_2026-11-16_abc1234.json"
    assert read_speeds(file) == kept(0.05)


def test_the_newest_earlier_file_of_the_same_machine_is_compared_with(tmp_path):
    others = [
        kept(0.4, commit="a", date="2026-11-14"),
        kept(0.2, commit="b", time="02:00:00"),
        kept(0.3, commit="c", time="01:00:00"),
        kept(0.1, commit="d", time="04:00:00"),
        kept(0.1, commit="e", time="02:30:00", processor="another processor"),
    ]
    for one in others:
        write_speeds(one, tmp_path)
    [earlier] = earlier_speeds(kept(0.05), tmp_path)
    assert earlier.about["commit"] == "b"
    assert earlier_speeds(kept(0.05, date="2026-11-13"), tmp_path) == ()


def test_a_gain_is_how_many_times_as_fast_it_is_now():
    assert gains({"evaluate": 0.05, "new": 1.0}, {"evaluate": 0.1, "gone": 1.0}) == {"evaluate": pytest.approx(2.0)}


def test_the_table_has_both_times_and_their_ratio():
    told = table(kept(0.05), [kept(0.1, commit="b", time="02:00:00")])
    assert "evaluate   0.05     0.1  2.00 x  one" in told
    assert told.endswith("before: commit b, 2026-11-16 02:00:00")
    assert table(kept(0.05), ()).endswith("nothing earlier here")


def test_the_least_of_several_runs_is_kept():
    [found] = measured([Speed(name="it", what="something", timed_s=lambda: iter((3.0, 1.0, 2.0)))])
    assert found == Timed(name="it", what="something", cpu_s=1.0, num_runs=3)


def test_a_processor_is_called_by_its_model_and_never_by_its_host():
    text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Some CPU @ 2 GHz\n"
    assert processor(text) == "Some CPU @ 2 GHz"
    assert processor("") != ""


def test_a_run_of_everything_is_kept_and_one_of_some_is_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speeds, "earlier_speeds", lambda now: speeds_kept.earlier_speeds(now, tmp_path))
    monkeypatch.setattr(speeds, "write_speeds", lambda now: speeds_kept.write_speeds(now, tmp_path))
    monkeypatch.setattr(speeds, "about_now", lambda: ABOUT)
    two = [Speed(name=name, what=name, timed_s=lambda: (2.0,)) for name in ("one", "two")]
    write_speeds(
        replace(kept(4.0, commit="b", time="02:00:00"), timed=(Timed(name="one", what="", cpu_s=4.0, num_runs=1),)),
        tmp_path,
    )
    main(["one", "--json"], two)
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["timed"]] == ["one"]
    assert told["gains"] == {"one": 2.0}
    assert len(list(tmp_path.iterdir())) == 1
    main([], two)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_name_that_nothing_is_timed_by_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["evalute"], [Speed(name="evaluate", what="", timed_s=lambda: (1.0,))])
    assert "known: evaluate" in capsys.readouterr().err


def test_every_file_that_is_kept_can_be_read():
    for file in RESULTS.glob("speeds_*.json"):
        found = read_speeds(file)
        assert file.name == f"speeds_{found.about['machine']}_{found.about['date']}_{found.about['commit']}.json"
        assert all(one.cpu_s > 0 and one.num_runs > 0 for one in found.timed)


def test_each_thing_to_time_has_a_name_of_its_own():
    names = [one.name for one in (*speeds.command_speeds(), *speeds.call_speeds())]
    assert len(set(names)) == len(names)
    assert {"help", "simulate", "plan", "op", "network", "codesign", "evaluate", "plans-1000", "ring"} <= set(names)
