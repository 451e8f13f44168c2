"""Commands whose loops Numba compiles say so where it is missing, and nothing where it is there."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from dovetail.api import scheduled
from dovetail.api.requests.components import ScheduleRequest
from dovetail.cli import slow_loops
from dovetail.cli.commands import run
from dovetail.cli.slow_loops import NO_NUMBA, log_if_slow
from dovetail.cli.verbosity import command_verbosity


def told(monkeypatch, capsys, numba: ModuleType | None) -> str:
    monkeypatch.setitem(sys.modules, "numba", numba)  # None: an import of it fails
    with command_verbosity():
        log_if_slow()
    return str(capsys.readouterr().err)


def test_where_numba_is_missing_one_line_says_so_and_the_way_out(monkeypatch, capsys):
    assert told(monkeypatch, capsys, None) == f"dovetail: {NO_NUMBA}\n"
    assert "pip install" in NO_NUMBA


def test_where_numba_is_there_nothing_is_said(monkeypatch, capsys):
    assert told(monkeypatch, capsys, ModuleType("numba")) == ""


def test_a_schedule_says_so_before_it_is_waited_for(monkeypatch):
    class Waited(Exception):
        pass

    def searched(_request: ScheduleRequest) -> None:
        raise Waited

    said: list[str] = []
    monkeypatch.setattr(slow_loops, "log_if_slow", lambda: said.append("slow"))
    monkeypatch.setattr(scheduled, "scheduled", searched)
    with pytest.raises(Waited):
        run(["schedule", "bert-large", "--chip", "tpuv2-like"])
    assert said == ["slow"]
