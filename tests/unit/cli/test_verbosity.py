"""How much is said: quiet, verbose, colour."""

from __future__ import annotations

import io
from contextlib import contextmanager

import pytest

from dovetail.cli import verbosity as manners
from dovetail.cli.screen import remark, without_notes
from dovetail.cli.verbosity import command_verbosity, has_colour, log, note, verbosity
from dovetail.errors import InvalidInput
from dovetail.report.table import Table


class TerminalContext(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def said(*options):
    with command_verbosity():
        for option in options:
            getattr(manners, f"_{option}")(True)
        yield


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("changes", "told", "has"),
    [
        ({}, TerminalContext(), True),
        ({}, io.StringIO(), False),
        ({"NO_COLOR": "1"}, TerminalContext(), False),
        ({"NO_COLOR": ""}, TerminalContext(), True),
        ({"CLICOLOR": "0"}, TerminalContext(), False),
        ({"CLICOLOR": "1"}, TerminalContext(), True),
        ({"TERM": "dumb"}, TerminalContext(), False),
        ({"CLICOLOR_FORCE": "1"}, io.StringIO(), True),
        ({"CLICOLOR_FORCE": "0"}, io.StringIO(), False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, TerminalContext(), False),
    ],
)
def test_colour_follows_the_terminal_and_the_environment(monkeypatch, changes, told, has):
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert has_colour(told) is has


def test_no_color_goes_before_everything(monkeypatch):
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    with said("plain"):
        assert not has_colour(TerminalContext())


def test_a_quiet_command_says_no_notes(capsys):
    with said("quiet"):
        note("worth knowing")
        log("being done")
        remark("written to x\n")
    assert capsys.readouterr() == ("", "")


def test_a_command_says_notes_and_not_what_it_does(capsys):
    with said():
        note("worth knowing")
        log("being done")
        remark("written to x\n")
    assert capsys.readouterr() == ("written to x\n", "dovetail: worth knowing\n")


def test_a_verbose_command_says_what_it_does_and_how_long_it_took(capsys):
    with said("verbose"):
        log("being done")
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("dovetail: model ")
    assert told[1] == "dovetail: being done"
    assert told[2].startswith("dovetail: done in ")


def test_quiet_and_verbose_contradict_each_other():
    with pytest.raises(InvalidInput, match="choose one"), said("quiet", "verbose"):
        pass


def test_a_manner_ends_with_its_command():
    with said("quiet"):
        assert verbosity().is_quiet
    assert not verbosity().is_quiet


def test_tables_without_notes_keep_their_rows_and_those_of_notes_alone_go():
    rows = Table(title="a", rows=(("x", "1"),), notes=("more",))
    words = Table(title="b", notes=("only this",))
    assert without_notes((rows, words)) == (Table(title="a", rows=(("x", "1"),)),)
    assert without_notes((words, rows, words)) == (words, Table(title="a", rows=(("x", "1"),)))
