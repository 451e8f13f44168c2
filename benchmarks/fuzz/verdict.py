"""Whether a command ended as it should: with an answer, or with one clear line; anything else is a finding."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.fuzz.child import LIMIT_BYTES, LIMIT_CPU_S, LIMIT_WALL_S, Ended
from dovetail.cli.process import EXIT_BAD_INPUT, EXIT_INFEASIBLE
from dovetail.units import MEBI

ANSWERED = (0, EXIT_INFEASIBLE)
MOST_CHARACTERS = 2000  # of the one line, as tests/property has it
OVER_TIME = (signal.SIGXCPU, signal.SIGKILL)  # the second follows where the first is not minded
LONG_WORK = (
    ("reproduce", "phaze"),
    ("reproduce", "wham"),
)  # minutes of searching that tell how far they are
# what only Python or a library would say
LEAKED = re.compile(
    r"Traceback|\b\w+(?:Error|Exception|Warning): |<class |<function |<module | object at 0x|NoneType|numpy\.|np\.float"
    r"|dtype\(|errors\.pydantic\.dev"
)
NOTE = "which starts again"  # of a store with rows by another version, said while it is opened
RAISES = re.compile(" raise[sd] ")  # what follows is said by other people's code that capture runs, and named so


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, in a word, and where: alike for cases that end at the same place."""

    kind: str
    where: str


def finding(ended: Ended, arguments: Sequence[str]) -> Finding | None:
    """Nothing where all is well."""
    if ended.peak_bytes > LIMIT_BYTES or "MemoryError" in ended.stderr:
        return Finding("memory", f"{ended.peak_bytes / MEBI:.0f} MiB; {_place(ended.stderr)}")
    if is_cut_short(ended, arguments):
        return None
    if -ended.code in OVER_TIME:
        return Finding("hang", f"over {LIMIT_CPU_S} CPU seconds; {arguments[0]}")
    if -ended.code == signal.SIGALRM:
        return Finding("stuck", f"over {LIMIT_WALL_S} s by the clock, not by CPU; {arguments[0]}")
    if ended.code < 0:
        return Finding("crash", signal.Signals(-ended.code).name)
    if ended.code in ANSWERED:
        return _wrong_answer(ended, arguments)
    if ended.code == EXIT_BAD_INPUT:
        return _wrong_refusal(ended)
    if "Traceback" in ended.stderr:
        return Finding("traceback", _place(ended.stderr))
    return Finding("exit code", f"{ended.code}: {ended.stderr[-200:].strip()}")


def is_cut_short(ended: Ended, arguments: Sequence[str]) -> bool:
    """Whether it was long work, met by a changed word, that the limit of a case ended."""
    return -ended.code in OVER_TIME and tuple(arguments[:2]) in LONG_WORK


def _wrong_answer(ended: Ended, arguments: Sequence[str]) -> Finding | None:
    if told := LEAKED.search(ended.stderr):
        return Finding("leak", ended.stderr[max(told.start() - 80, 0) : told.end() + 80].strip())
    if not ended.stdout.strip():
        return Finding("no answer", " ".join(arguments[:2]))
    if "--json" in arguments:
        try:
            json.loads(ended.stdout, parse_constant=_no_number)
        except ValueError as error:
            return Finding("no JSON", str(error)[:60])
    return None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _wrong_refusal(ended: Ended) -> Finding | None:
    """A refusal is one line; a note of a study that starts again, which was told before, may stand above it."""
    lines = ended.stderr.splitlines()
    told_before = [line for line in lines[:-1] if line.startswith("dovetail: ") and NOTE in line]
    if len(lines) != 1 + len(told_before) or not all(line.removeprefix("dovetail: ").strip() for line in lines):
        return Finding("not one line", f"{len(lines)} lines: {ended.stderr[:200].strip()}")
    return next(filter(None, map(_wrong_line, lines)), None)


def _wrong_line(line: str) -> Finding | None:
    if not line.startswith("dovetail: "):
        return Finding("not one line", f"not told by us: {line[:200]}")
    if told := LEAKED.search(RAISES.split(line)[0]):
        return Finding("leak", line[max(told.start() - 80, 0) : told.end() + 80])
    if len(line) > MOST_CHARACTERS or not line.isprintable():
        return Finding("unreadable", line[:100])
    return None


def _place(stderr: str) -> str:
    """The exception and the innermost line of ours that it passed."""
    frames = re.findall(r'File "([^"]*)", line (\d+), in (\S+)', stderr)
    ours = [frame for frame in frames if "dovetail" in frame[0]]
    raised = [line for line in stderr.splitlines() if re.match(r"[\w.]+(Error|Exception|Interrupt|Warning)\b", line)]
    file, line, function = (ours or [("", "", "")])[-1]
    place = f"{file.rpartition('dovetail/')[2]}:{line} {function}" if file else "no place"
    return f"{place}: {raised[-1][:120] if raised else 'nothing said'}"
