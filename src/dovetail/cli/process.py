"""How a command starts and ends: an answer, one line on standard error, or a traceback that is our fault.

Imports next to nothing itself, so that an interrupt is met from the first moment on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TextIO

EXIT_INFEASIBLE, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
EXIT_MISSED = 1  # an answer too: a documented bar of accuracy is missed
EXIT_OUR_MISTAKE, EXIT_UNWRITTEN = 70, 74  # EX_SOFTWARE and EX_IOERR of sysexits.h
OUR_MISTAKE = "the lines above are a mistake of ours, not of yours; please report them with the command"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; everything that is not our fault ends in at most one line."""
    is_ours = _meet_interrupts()
    # Products here are small: a second thread of BLAS waits more than it computes. A search for DeepSeek-V3 took 16.3
    # CPU-s with two threads and 12.9 with one, and no more wall time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return _outcome(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return ended("interrupted", EXIT_INTERRUPTED)
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _outcome(arguments: list[str]) -> int:
    if stream("stdout") is None:
        return ended("cannot write the answer: standard output is closed", EXIT_UNWRITTEN)
    from dovetail.errors import DovetailError

    try:
        from dovetail.cli.commands import run

        return run(arguments)
    except DovetailError as error:
        return _refused(str(error), arguments)
    except OSError as error:
        if error.filename is not None:  # not standard output then, and files are read where their errors are reported
            return _our_mistake()
        forget_output()
        return ended(f"cannot write the answer: {error.strerror or error}", EXIT_UNWRITTEN)
    except Exception:
        return _our_mistake()


def _refused(message: str, arguments: list[str]) -> int:
    """One line on standard error; with --json the same as JSON where the answer would be."""
    if "--json" in arguments:
        from dovetail.cli.screen import show_json

        show_json({"error": message})
    return ended(message, EXIT_BAD_INPUT)


def ended(message: str, code: int) -> int:
    """Says why on one line, whatever characters the message was made of; the exit code says it too."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message.replace("\n", " "))
    output = stream("stderr")
    if output is not None:
        encoding = output.encoding or "ascii"
        try:
            output.write(f"dovetail: {line}\n".encode(encoding, "backslashreplace").decode(encoding))
            output.flush()
        except OSError:  # a full disk, a reader gone
            forget_output(output)
    return code


def stream(name: str) -> TextIO | None:
    """`sys.stdout` or `sys.stderr`, which Python sets to None where the shell closed them (`>&-`)."""
    found: TextIO | None = getattr(sys, name)
    return found


def forget_output(output: TextIO | None = None) -> None:
    """Points standard output (or `output`) nowhere, so that the interpreter finds no error when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (output or sys.stdout).fileno())


def _our_mistake() -> int:
    import traceback

    if stream("stderr") is not None:
        traceback.print_exc()
    return ended(OUR_MISTAKE, EXIT_OUR_MISTAKE)


def _meet_interrupts() -> bool:
    """Takes SIGINT over from Python where Python has it, and says so; a shell may have it ignored, a host its own."""
    try:
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return False
        signal.signal(signal.SIGINT, _interrupted)
    except ValueError:  # not the main thread, which alone may say
        return False
    return True


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """Ends the process at once: nothing needs putting away, and an exception amid an import may get lost or changed."""
    if stream("stderr") is not None:
        os.write(2, b"dovetail: interrupted\n")
    os._exit(EXIT_INTERRUPTED)
