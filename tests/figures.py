"""Figures in sentences of pages: each is a field of a phrase, filled from what produces it, and looked for on its page.

A phrase is what a page says with `{source[...]}` in place of every figure, as `str.format` writes it. Sources are in
`tests.figure_sources`, phrases in figures.txt beside this. Lines of a page may break anywhere inside a phrase.
`tests.figure_origins` finds figures that no phrase fills in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

PHRASES_FILE = Path(__file__).with_name("figures.txt")


def phrases_in(text: str) -> dict[str, list[str]]:
    """Phrases by the page that is to say them; a line a phrase, pages behind `== `, remarks behind a semicolon."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("== "):
            found[line.removeprefix("== ")] = []
        elif line and not line.startswith(";"):
            found[list(found)[-1]].append(line)
    return found


def filled(phrase: str, sources: Mapping[str, Any]) -> str:
    """What the page has to say today."""
    return phrase.format_map(sources)


def pattern(phrase: str) -> re.Pattern[str]:
    """The phrase with any figures, on however many lines."""
    parts = []
    for literal, field, _, _ in Formatter().parse(phrase):
        words = r"\s+".join(map(re.escape, re.split(r"\s+", literal)))
        parts.append(f"({words})" + ("" if field is None else r"[-+]?\d(?:[\d.,]*\d)?"))
    return re.compile("".join(parts))


def marked(page: str, phrase: str, mark: str) -> str:
    """The page with a mark in place of every figure that the phrase fills in."""
    num_fields = sum(field is not None for _, field, _, _ in Formatter().parse(phrase))

    def put(found: re.Match[str]) -> str:
        literals = found.groups()
        marks = [mark] * num_fields + [""] * (len(literals) - num_fields)
        return "".join(a + b for a, b in zip(literals, marks, strict=True))

    return pattern(phrase).sub(put, page)


def says(page: str, words: str) -> bool:
    """Whether the page has these words, wherever its lines break."""
    return re.search(r"\s+".join(map(re.escape, words.split())), page) is not None


def rewritten(page: str, phrase: str, sources: Mapping[str, Any]) -> str:
    """The page with today's figures in the phrase; unchanged where it does not have the phrase at all."""
    figures = [
        format(Formatter().get_field(field, (), sources)[0], spec or "")
        for _, field, spec, _ in Formatter().parse(phrase)
        if field is not None
    ]

    def renewed(found: re.Match[str]) -> str:
        literals = found.groups()
        return "".join(a + b for a, b in zip(literals, [*figures, *[""] * (len(literals) - len(figures))], strict=True))

    return pattern(phrase).sub(renewed, page)
