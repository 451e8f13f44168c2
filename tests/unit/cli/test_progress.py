"""What the bar of a search says."""

from __future__ import annotations

import io
import re
import signal
import sys
import threading
from typing import Any

import pytest

from dovetail.api.progress import front_progress, mining_progress
from dovetail.cli import verbosity as manners
from dovetail.cli.interrupts import at_interrupt
from dovetail.cli.progress import _shown, _shown_steps, _shown_systems, announced, telling, through
from dovetail.cli.verbosity import command_verbosity
from dovetail.search.codesign.pareto import FrontStanding
from dovetail.search.mining.miner import Standing
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import Tally


class Bar:
    """As much of a bar as is used."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def add_task(self, *_: str, **__: object) -> int:
        return 0

    def update(self, _: int, **told: object) -> None:
        self.told = told


@pytest.mark.parametrize(("name", "usd"), [("time", 1.0), ("tokens/s/$", 50.0)])
def test_while_stages_are_cut_the_bar_shows_what_is_left_and_the_gap(name, usd):
    bar = Bar()
    show = _shown(bar, objectives[name], usd)
    show(3, 7, Tally(num_plans=100), 2.0 * usd)
    assert (bar.told["completed"], bar.told["total"]) == (3, 7)
    assert "best 2" in bar.told["status"]
    assert "gap" not in bar.told["status"]
    show(16, 40, Tally(num_plans=100), 2.0 * usd, 1.9)
    assert (bar.told["completed"], bar.told["total"]) == (16, 40)
    assert "cutting stages, gap 5.00 %" in bar.told["status"]


def test_nothing_is_said_not_to_fit_before_anything_was_timed():
    bar = Bar()
    show = _shown(bar, objectives["time"], 1.0)
    show(1, 7, Tally(num_plans=100), float("inf"))
    assert "bounding" in bar.told["status"]
    show(7, 7, Tally(num_plans=100, num_evaluated=5), float("inf"))
    assert "nothing fits yet" in bar.told["status"]
    show(0, 40, Tally(num_plans=100), float("inf"), 1.5)
    assert bar.told["status"] == "nothing fits yet; cutting stages"


def test_the_bar_of_a_search_for_a_chip_shows_the_best_the_bound_and_what_is_open():
    bar = Bar()
    shown = _shown_systems(bar, has_pace=True)

    def show(now: Standing) -> None:
        shown(mining_progress(now, "tpuv2-like", 60))

    show(Standing(num_evaluated=8, loss=float("inf"), bound=0.2, num_open=100))
    assert "tpuv2-like" not in bar.told["status"]
    show(Standing(num_evaluated=16, loss=0.5, bound=0.4, num_open=24))
    assert (bar.told["completed"], bar.told["total"]) == (16, 40)
    assert "16 designs; 2.000x tpuv2-like, at most 2.500x; " in bar.told["status"]
    assert bar.told["status"].endswith("/s")
    show(Standing(num_evaluated=20, loss=0.5, bound=0.4, num_open=1000))
    assert bar.told["total"] == 60  # no more are looked at


def test_the_bar_of_a_front_has_no_pace_as_bounding_and_scoring_are_not_alike():
    bar = Bar()
    show = _shown_systems(bar, has_pace=False)
    show(front_progress(FrontStanding(num_points=100, num_bounded=100, num_open=20, num_scored=30, num_front=7)))
    assert bar.told == {"completed": 180, "total": 200, "status": "30 scored, 7 on the front, 20 open"}


def test_an_interrupt_is_met_by_the_last_to_ask_and_then_as_before():
    met: list[str] = []
    before = signal.getsignal(signal.SIGINT)

    def inner(earlier, *rest):
        met.append("inner")
        earlier(*rest)

    with at_interrupt(lambda *_: met.append("outer")):
        with at_interrupt(inner):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert met == ["inner", "outer", "outer"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_is_ignored_stays_ignored_and_threads_leave_it_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with at_interrupt(lambda *_: pytest.fail("met")):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    def elsewhere() -> None:
        with at_interrupt(lambda *_: None):
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_the_bar_of_a_study_counts_what_is_done_and_says_what_runs():
    bar = Bar()
    show = _shown_steps(bar, ["resnet-18", "bert-base"])
    show("resnet-18: proven best")
    assert bar.told == {"completed": 0, "status": "resnet-18: proven best"}
    show("bert-base: proven best")
    assert bar.told["completed"] == 1
    show("one chip for all models")
    show("bert-base: chips by stage, mosaic")
    assert bar.told == {"completed": 2, "status": "bert-base: chips by stage, mosaic"}


class TerminalContext(io.StringIO):
    """A stream that says it is watched."""

    def isatty(self) -> bool:
        return True


def watched_by(monkeypatch: pytest.MonkeyPatch) -> TerminalContext:
    """In place of standard error; no fixture, as pytest puts its own there before each test."""
    told = TerminalContext()
    monkeypatch.setattr(sys, "stderr", told)
    monkeypatch.setenv("TERM", "xterm")
    return told


def test_items_that_are_gone_through_show_how_many_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watched_by(monkeypatch)
    with command_verbosity():
        assert list(through("counting", ["a", "b"])) == ["a", "b"]
    assert "counting" in watched.getvalue()
    assert "2/2" in watched.getvalue()


def test_what_something_of_unknown_length_tells_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watched_by(monkeypatch)
    with command_verbosity(), telling("fitting") as told:
        told("3 tries")
    assert "3 tries" in watched.getvalue()


@pytest.mark.parametrize("is_quiet", [False, True])
def test_nothing_is_shown_where_only_the_answer_is_wanted(monkeypatch: pytest.MonkeyPatch, *, is_quiet: bool) -> None:
    watched = watched_by(monkeypatch)
    with command_verbosity():
        manners._quiet(is_quiet)
        assert list(through("counting", [1])) == [1]
        with announced("working"):
            pass
    assert (watched.getvalue() == "") is is_quiet


def test_nothing_is_shown_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with command_verbosity():
        assert list(through("counting", [1, 2])) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_verbose_command_says_how_long_each_part_took(capsys: pytest.CaptureFixture[str]) -> None:
    with command_verbosity():
        manners._verbose(True)
        list(through("counting", [1, 2]))
    assert re.search(r"^dovetail: counting: [0-9.]+ s$", capsys.readouterr().err, re.MULTILINE)
