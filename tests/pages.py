"""Pages that can be followed: the files that they show, and the commands in them with what these are to print.

A fence with a title is a file to save under that name; one in `console` has commands behind `$ `, going on
in lines behind `> `, each followed by what it prints. A line `...` stands for lines that are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PROMPT, MORE = "$ ", "> "
LEFT_OUT = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the reader saves."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What the reader types, and the lines of the answer that the page shows."""

    typed: str
    shown: tuple[str, ...]


def steps(page: str) -> Iterator[File | Command]:
    """What there is to do on a page, in its order."""
    for language, title, body in FENCE.findall(page):
        if title:
            yield File(name=title, text=body)
        elif language == "console":
            yield from _commands(body)


def _commands(body: str) -> Iterator[Command]:
    for part in re.split(rf"^{re.escape(PROMPT)}", body, flags=re.MULTILINE)[1:]:
        first, *others = part.splitlines()
        more = list(takewhile(lambda line: line.startswith(MORE), others))
        yield Command(
            typed="\n".join([first, *(line.removeprefix(MORE) for line in more)]),
            shown=tuple(_stripped(others[len(more) :])),
        )


def _stripped(lines: Sequence[str]) -> list[str]:
    """Without blank lines at both ends, which set commands of a page apart."""
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return kept


def as_shown(command: Command, answer: str) -> tuple[str, ...]:
    """`answer` with as many lines left out of it as the page leaves out."""
    lines = _stripped([line.rstrip() for line in answer.splitlines()])
    if LEFT_OUT not in command.shown:
        return tuple(lines)
    head = command.shown.index(LEFT_OUT)
    tail = len(command.shown) - head - 1
    assert LEFT_OUT not in command.shown[head + 1 :], f"{command.typed}: lines are left out twice"
    assert len(lines) > head + tail, f"{command.typed}: nothing is left to leave out"
    return (*lines[:head], LEFT_OUT, *lines[len(lines) - tail :])


def rewritten(page: str, answer_of: Callable[[File | Command], str]) -> str:
    """The page with every answer as `answer_of` gives it; files are handed to it too, in their place."""

    def fence(found: re.Match[str]) -> str:
        language, title, body = found.groups()
        if title:
            answer_of(File(name=title, text=body))
        if title or language != "console":
            return found[0]
        blocks = []
        for command in _commands(body):
            typed = PROMPT + command.typed.replace("\n", f"\n{MORE}")
            blocks.append("\n".join([typed, *as_shown(command, answer_of(command))]))
        return "```console\n" + "\n\n".join(blocks) + "\n```"

    return FENCE.sub(fence, page)
