"""How much is printed and how: the options that every command has, before its name or after it.

--quiet leaves the answer alone, --verbose says what is done, --no-color takes the colour out. Modules of `files` tell
what they read by logging; only --verbose listens.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

import typer

from dovetail.cli.process import forget_output, stream
from dovetail.errors import InvalidInput

LOGGER = "dovetail"
QUIET_HELP = "Only the answer: no notes, no progress."
VERBOSE_HELP = "Log to standard error: files, times, versions."
COLOUR_HELP = "No colour, whatever the terminal can do."


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbosity:
    """What the options that every command has come to."""

    is_quiet: bool = False
    is_verbose: bool = False
    is_plain: bool = False


_VERBOSITY: ContextVar[Verbosity] = ContextVar("manner")  # of the command that runs


def verbosity() -> Verbosity:
    return _VERBOSITY.get(Verbosity())


def has_colour(output: Any) -> bool:
    """Colour is for people: never in a pipe or a file, nor where an option, the environment or the terminal says no.

    The environment's words are those of no-color.org and bixense.com/clicolors.
    """
    variable = os.environ.get
    if verbosity().is_plain or variable("NO_COLOR"):
        return False
    if variable("CLICOLOR_FORCE", "0") != "0":
        return True
    return bool(output.isatty()) and variable("TERM") != "dumb" and variable("CLICOLOR") != "0"


@contextmanager
def command_verbosity() -> Iterator[None]:
    """The manner of one command, from its start to its end; a verbose one then says how long it took."""
    begin_s, token = time.monotonic(), _VERBOSITY.set(Verbosity())
    try:
        yield
    finally:
        log(f"done in {time.monotonic() - begin_s:.2f} s")
        _listener(is_heard=False)
        _VERBOSITY.reset(token)


def log(words: str) -> None:
    """What is being done, with --verbose."""
    if verbosity().is_verbose:
        _tell(words)


def note(words: str) -> None:
    """Something worth knowing beside the answer, unless only that is wanted."""
    if not verbosity().is_quiet:
        _tell(words)


@contextmanager
def timed_log(words: str) -> Iterator[None]:
    """Says what was done and how long it took."""
    begin_s = time.monotonic()
    yield
    log(f"{words}: {time.monotonic() - begin_s:.2f} s")


def _tell(words: str) -> None:
    output = stream("stderr")
    if output is None:
        return
    try:
        output.write(
            f"dovetail: {words}\n".encode(output.encoding or "ascii", "backslashreplace").decode(output.encoding)
        )
        output.flush()
    except OSError:  # a full disk, a reader gone: the answer is what matters
        forget_output(output)


class _Listener(logging.Handler):
    """What modules of `files` log, printed as every note is."""

    def emit(self, record: logging.LogRecord) -> None:
        log(record.getMessage())


def _listener(*, is_heard: bool) -> None:
    logger = logging.getLogger(LOGGER)
    for handler in [handler for handler in logger.handlers if isinstance(handler, _Listener)]:
        logger.removeHandler(handler)
    if is_heard:
        logger.addHandler(_Listener())
    logger.setLevel(logging.INFO if is_heard else logging.WARNING)


def _changed(**changes: bool) -> None:
    found = replace(verbosity(), **changes)
    if found.is_quiet and found.is_verbose:
        raise InvalidInput("--quiet and --verbose exclude each other; choose one")
    _VERBOSITY.set(found)


def _quiet(is_given: bool) -> None:
    if is_given:
        _changed(is_quiet=True)


def _verbose(is_given: bool) -> None:
    if not is_given or verbosity().is_verbose:
        return
    _changed(is_verbose=True)
    _listener(is_heard=True)
    from dovetail.store.version import model_version

    log(f"model {model_version()}")


def _plain(is_given: bool) -> None:
    if is_given:
        _changed(is_plain=True)


def _every_command(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", expose_value=False, callback=_quiet, help=QUIET_HELP)] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", expose_value=False, callback=_verbose, help=VERBOSE_HELP)
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", expose_value=False, callback=_plain, help=COLOUR_HELP)
    ] = False,
) -> None:
    """What `verbosity_options` takes its options from."""


@cache
def verbosity_options() -> tuple[Any, ...]:
    """The options that every command has, as Typer makes them."""
    lone = typer.Typer(add_completion=False)
    lone.command()(_every_command)
    return tuple(option for option in typer.main.get_command(lone).params if option.name != "help")
