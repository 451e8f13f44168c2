"""Figures in sentences of pages: each is a field of a phrase, filled from what produces it, and looked for on its page.

A phrase is what a page says with `{source[...]}` in place of every figure, as `str.format` writes it. Sources are in
`tests.figure_sources`, phrases in figures.txt beside this. Lines of a page may break anywhere inside a phrase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

PHRASES_FILE = Path(__file__).with_name("figures.txt")

# A figure of ours that a reader could doubt: an error, a ratio, a time, a pace, memory. Not sizes of a thing asked for.
UNIT = (
    r"(?:%|times\b|CPU[ -]?s\b|CPU-ms\b|CPU[ -]seconds?\b|s of CPU\b|us\b|ms\b|s a step\b|MB\b"
    r"|(?:million )?[a-z]* ?(?:a|each) (?:CPU-)?second\b)"
)
FIGURE = re.compile(rf"(?<![\w.^])[+-]?\d[\d.,]*(?:(?: to |, | and )[+-]?\d[\d.,]*)* ?{UNIT}")
# Where a figure comes from: something that runs here, or somebody who says so.
RUNS = re.compile(
    r"`(?:dovetail |make |python -m benchmarks|tests/|benchmarks/|examples/|hardware/catalog/)[^`]*`"
    r"|`[\w-]+\.csv`|`[A-Z]+(?:_[A-Z]+)+`"  # a table that ships, a constant with its source beside it
)
RECORD = re.compile(r"`(?:benchmarks/results|tests)/[^`]*`")  # named once for all of a section
SAID = re.compile(
    r"arXiv:|et al\.|\((?:paper|run)[,)]|paper's|white paper|recalled|estimate|\]\((?:\.\./)?decisions/"
    r"|\b(?:ISCA|ICML|JPDC|IJHPCA|CACM|MLSys|ICLR|SC) (?:19|20)\d\d\b"
)
# What is set and not found: how sure an interval is, by how much a resource is raised, for what a form is meant.
SET = re.compile(r"90 % intervals?|intervals? of 90 %|10 % more|is 100 %|\*\*Valid for\*\* [^.]*\.|last 70 and 40 %")
APART = re.compile(r"^(?: {4}\S.*|#.*)\n?", re.MULTILINE)  # commands and equations set apart, and headings
FENCE = re.compile(r"^(```|~~~)(\w*)[^\n]*\n.*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`]*`")


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


def blocks(page: str) -> list[tuple[str, bool]]:
    """Paragraphs, lists and tables of a page, each with whether a test follows or holds all of its section."""
    found = []
    for section in re.split(r"^(?=#+ )", FENCE.sub(_kept_console, page), flags=re.MULTILINE):
        is_held = "\0" in section or RECORD.search(section) is not None
        found += [(block, is_held) for block in re.split(r"\n\s*\n", section.replace("\0", "")) if block.strip()]
    return found


def _kept_console(fence: re.Match[str]) -> str:
    return "\0" if fence[2] == "console" else ""


def unsourced(page: str, phrases: Sequence[str]) -> list[str]:
    """Blocks with figures of which nothing says where they come from; `phrases` are filled ones of this page."""
    found = []
    for block, is_held in blocks(page):
        figures = FIGURE.findall(SET.sub("", CODE.sub("", APART.sub("", block))))
        if not figures or is_held or block.startswith("**Source**") or RUNS.search(block) or SAID.search(block):
            continue
        if not any(says(block, words) for words in phrases):
            found.append(f"{', '.join(figures[:6])} in: {' '.join(block.split())[:90]}")
    return found
