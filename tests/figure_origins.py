"""Figures of pages without an origin: no phrase fills them in, nothing beside them says where they come from.

What is looked at is a sentence, a row of a table, a text fence or lines set apart. Its figures have an origin where a
phrase of figures.txt fills them in, where the same sentence names something that runs here or who published them, or
where a transcript of the page shows them. Cells of a table may also have it from a cell of their row that names nothing
else ("the same" is that of the row above), and tables and text fences from the sentence before them, if that ends in a
colon.

What is not looked at: bare counts and ratios, sizes in whole GiB and MiB, bandwidths, code, and whether whoever is
named beside a figure says that figure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path

from tests.figures import marked

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "dovetail"

# A figure of ours that a reader could doubt: an error, a ratio, a time, a pace, memory, power, money, a correlation.
NUMBER = r"[+-]?\d(?:[\d.,]*\d)?"
NUMBERS = rf"{NUMBER}(?:(?: to |, | and | or | / ){NUMBER})*"
UNIT = (
    r"(?:%|percent\b|times\b|x\b|[MGT]B\b|[mk]?W\b|USD\b|CPU[ -]?(?:m?s|seconds?|minutes?|hours?)\b"
    r"|[mun]?s\b|(?:micro|milli|nano)?seconds?\b|min(?:utes?)?\b(?!\()|(?<!-)h\b|hours?\b|days?\b|years?\b"
    r"|(?:million )?[a-z]* ?(?:a|each) (?:CPU-)?second\b)"
)
FIGURE = re.compile(
    rf"(?<![\w.^/]){NUMBERS}(?! x)[ -]?{UNIT}(?!/)"
    rf"|(?<![\w.^/])\d[\d,]*\.\d+ [MGT]iB\b(?!/)"  # whole ones are sizes that somebody asks for
    rf"|\b[Cc]orrelat\w*(?: of| by| is| at)? {NUMBERS}"
)
# Where a figure comes from: something that runs here, or somebody who says so.
RUNS = re.compile(
    r"`(?:dovetail |make |python -m benchmarks|tests/|benchmarks/|examples/|hardware/catalog/)[^`]*`"
    r"|`[\w-]+\.csv`"  # a table that ships
)
CONSTANT = re.compile(r"`([A-Z]+(?:_[A-Z]+)+)`")  # of the package, with its source beside it
SAID = re.compile(
    r"arXiv:|et al\.|\((?:paper|run)[,)]|paper's|white paper|recalled|estimate|\]\((?:\.\./)?decisions/"
    r"|\([A-Z][^()]* (?:19|20)\d\d\)"  # a publisher and a year
    r"|\b(?:ISCA|ICML|JPDC|IJHPCA|CACM|MLSys|ICLR|SC) (?:19|20)\d\d\b"
)
# What is set and not found: how sure an interval is, by how much a resource is raised, for what a form is meant, and
# the share that is asked about where a count of it is filled in.
SET = re.compile(
    r"90 % intervals?|intervals? of 90 %|10 % more|is 100 %|\*\*Valid for\*\* [^.]*\.|last 70 and 40 %"
    r"|\x01 within 10 %|by 10 % or more in \x01|\x01 of \x01 are proven within 1 %"
)
FENCE = re.compile(r"^(```|~~~)(\w*)([^\n]*)\n(.*?)^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`]*`")
TYPED = re.compile(r"^ *(?:dovetail|make|python|pip|#|\$|\.) ?.*$", re.MULTILINE)  # commands, and remarks on them
SENTENCE = re.compile(r"(?<=[.!?])(?<!al\.)(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)[)*\"]*\s+(?=[A-Z`*\[\"(\d\x01])")
FILLED = "\x01"  # stands for a figure that a phrase fills in
ANSWER = "\x02"  # begins what a text fence shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Words of a page that are looked at by themselves, and the words about all of their table or fence."""

    words: str
    about: str = ""


def claims(page: str) -> Iterator[Claim]:
    """All of a page that is not code; transcripts are left out, which a test follows."""
    for section in re.split(r"^(?=#+ )", FENCE.sub(_kept, page), flags=re.MULTILINE):
        led_by = ""
        for block in re.split(r"\n\s*\n", re.sub(r"^#.*", "", section)):
            if block.lstrip().startswith("|"):
                yield from _rows(block, led_by)
            elif block.startswith((ANSWER, "    ")):
                yield Claim(words=TYPED.sub("", block), about=led_by)
            elif block.strip():
                found = [part for item in _items(block) for part in SENTENCE.split(item)]
                yield from (Claim(words=words) for words in found)
                led_by = found[-1] if found[-1].rstrip().endswith(":") else ""


def _kept(fence: re.Match[str]) -> str:
    """A text fence as one block; other fences are code, files or transcripts."""
    _, language, title, body = fence.groups()
    return ANSWER + re.sub(r"\n\s*\n", "\n", body) if language == "text" and not title else ""


def _items(block: str) -> list[str]:
    return re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block)


def _rows(table: str, led_by: str) -> Iterator[Claim]:
    """Sentences in cells of a table; what a row's cell names and says nothing else is about all of the row."""
    above: list[str] = []
    for row in re.sub(r"^\|[ :|-]+\n", "", table.strip(), flags=re.MULTILINE).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
        cells = [old if cell == "the same" else cell for cell, old in zip_longest(cells, above[: len(cells)])]
        named = " ".join(cell for cell in cells if RUNS.fullmatch(cell))
        yield from (Claim(words=words, about=f"{named} {led_by}") for cell in cells for words in SENTENCE.split(cell))
        above = cells


@cache
def constants() -> frozenset[str]:
    """Names that a module of the package sets at its top."""
    texts = (file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    return frozenset(
        name for text in texts for name in re.findall(r"^([A-Z][A-Z_0-9]+)\b[^=\n]* = ", text, re.MULTILINE)
    )


def has_origin(words: str) -> bool:
    """Whether something that runs, a constant, or who published it is named there."""
    return bool(RUNS.search(words) or SAID.search(words) or constants().intersection(CONSTANT.findall(words)))


def shown(page: str) -> str:
    """What transcripts of a page show."""
    return "".join(body for _, language, _, body in FENCE.findall(page) if language == "console")


def _is_shown(figure: str, transcripts: str) -> bool:
    """Whether every number of a figure stands in a transcript: with its unit, maybe rounded, or as three digits."""
    unit = re.sub(rf"^.*{NUMBER}", "", figure, flags=re.DOTALL).strip(" -")
    near = [found[1] for found in re.finditer(rf"({NUMBER}) ?{re.escape(unit)}", transcripts)]
    alone = [number for number in re.findall(NUMBER, transcripts) if len(re.sub(r"\D", "", number)) >= 3]
    return all(part in alone or any(_rounds(number, to=part) for number in near) for part in re.findall(NUMBER, figure))


def _rounds(number: str, *, to: str) -> bool:
    num_decimals = len(to.partition(".")[2])
    return f"{float(number.replace(',', '')):.{num_decimals}f}" == to.replace(",", "").lstrip("+")


def unsourced(page: str, phrases: Sequence[str]) -> list[str]:
    """Claims with figures of which nothing says where they come from; `phrases` are those of this page."""
    transcripts = shown(page)
    for phrase in phrases:
        page = marked(page, phrase, FILLED)
    found = []
    for claim in claims(page):
        figures = FIGURE.findall(SET.sub("", CODE.sub("", claim.words)))
        figures = [figure for figure in figures if not _is_shown(figure, transcripts)]
        if figures and not has_origin(f"{claim.words} {claim.about}"):
            found.append(f"{', '.join(figures[:6])} in: {' '.join(claim.words.split())[:120]}")
    return found
