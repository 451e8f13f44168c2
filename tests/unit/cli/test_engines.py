"""A note where workers are crowded, and interrupts that reach the engine while it is open."""

from __future__ import annotations

import os
import signal

import pytest

from dovetail.api.requests.searches import MineRequest
from dovetail.cli.engines import EngineChoice, engine_choice, engine_for
from dovetail.errors import InvalidInput
from tests import engine_tasks as tasks


def test_more_workers_than_cores_are_told_of(monkeypatch, capsys):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    asked = engine_choice(2, "")
    assert asked == EngineChoice(num_workers=2)
    with engine_for(asked, 3) as engine:
        assert list(engine.map(tasks.times, [5])) == [15]
    assert capsys.readouterr().err == "dovetail: 2 workers for 1 core: more than there are cores is no faster\n"


def test_no_more_workers_are_started_than_are_any_use(monkeypatch, capsys):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert engine_choice(100, "") == EngineChoice(num_workers=8)
    assert "100 workers for 2 cores: more than there are cores is no faster; 8 are started" in capsys.readouterr().err


def test_while_workers_are_there_an_interrupt_is_raised_and_then_met_as_before():
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        own = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), engine_for(EngineChoice(num_workers=1), 3):
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is own
        with engine_for(EngineChoice(), 3):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_said_is_this_process(capsys):
    assert engine_choice(0, "") == EngineChoice()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("workers", "dask", "reason"),
    [
        ("0", "", "--workers must be at least 1"),
        ("two", "", "--workers must be a whole number"),
        ("257", "", "at most 256.* got 257"),
        ("100000", "", "at most 256.* --dask"),
        ("2", "tcp://host:1", "choose one"),
        (None, "a b", "such as"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_computed(workers, dask, reason):
    def chosen() -> EngineChoice:
        request = MineRequest.parsed({"spec": "bert-large", "workers": workers, "dask": dask})
        return engine_choice(request.workers, request.dask)

    with pytest.raises(InvalidInput, match=reason):
        chosen()
