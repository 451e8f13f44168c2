"""Every figure that a page states comes from somewhere: it is filled in from there, or the page says where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.recorded import check_recorded
from tests.figure_sources import SOURCES
from tests.figures import PHRASES_FILE, filled, pattern, phrases_in, rewritten, says, unsourced

ROOT = Path(__file__).resolve().parent.parent
PHRASES = phrases_in(PHRASES_FILE.read_text(encoding="utf-8"))
IN_CODE = "docs/accuracy.md"  # its words are in report/accuracy_page.py, and are changed there
SLOW = {IN_CODE: pytest.mark.slow}  # four tables are fitted anew
GENERATED = ("cli.md", "api.md")  # from `--help` and docstrings
KEYS = ("json.md", "spec-file.md", "glossary.md")  # say what words mean, not what was found
PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if "decisions" not in page.parts and page.name not in GENERATED + KEYS
    ),
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in PHRASES])
def test_figures_of_a_page_are_what_their_sources_say_today(name, bless):
    page = ROOT / name
    text = today = page.read_text(encoding="utf-8")
    absent = [phrase for phrase in PHRASES[name] if len(pattern(phrase).findall(text)) != 1]
    assert not absent, f"{name} does not say once, whatever the figures:\n" + "\n".join(absent)
    for phrase in PHRASES[name]:
        today = rewritten(today, phrase, SOURCES)
    check_recorded(page, today, bless and name != IN_CODE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_says_where_its_figures_come_from(page):
    text = page.read_text(encoding="utf-8")
    said = [found[0] for phrase in PHRASES.get(name_of(page), ()) for found in pattern(phrase).finditer(text)]
    found = unsourced(text, said)
    assert not found, f"name a command, a test, a record or a paper, or add a phrase to {PHRASES_AT}:\n" + "\n".join(
        found
    )


PHRASES_AT = "tests/figure_phrases.py"

# --- the checks themselves can fail ---------------------------------------------------------------------------------

KNOWN = {"set": {"steps": 1.26}, "count": 17}
PHRASE = "off by {set[steps]:.1f} % over {count} steps"


def test_phrases_stand_under_their_page():
    text = "; words\n\n== a.md\none {x}\n[two]\n\n== b.md\nthree\n"
    assert phrases_in(text) == {"a.md": ["one {x}", "[two]"], "b.md": ["three"]}


def test_a_phrase_is_found_over_lines_and_its_figures_are_renewed():
    page = "It is off by\n1.9 % over 16\nsteps, not 7.\n"
    assert filled(PHRASE, KNOWN) == "off by 1.3 % over 17 steps"
    assert not says(page, filled(PHRASE, KNOWN))
    assert rewritten(page, PHRASE, KNOWN) == "It is off by\n1.3 % over 17\nsteps, not 7.\n"
    assert rewritten("another page of 16 steps", PHRASE, KNOWN) == "another page of 16 steps"


@pytest.mark.parametrize("figure", ["-12 %", "1,234.5 %", "+0.4 %", "9 %"])
def test_any_figure_may_stand_in_a_field(figure):
    assert pattern("{x} %").fullmatch(figure)


@pytest.mark.parametrize(
    ("block", "is_found"),
    [
        ("It is 3 % off.", True),
        ("It is 3 % off (`dovetail validate`).", False),
        ("It is 3 % off, as arXiv:1234.5678 says.", False),
        ("Take 128 rows of 64 samples.", False),
        ("It takes 22 us, 5 times less.", True),
        ("`3 %` in code", False),
        ("## One\n\nIt is 3 % off.\n\n```console\n$ dovetail chips\n```\n", False),
        ("## One\n\nIt is 3 % off.\n\n## Two\n\n```console\n$ dovetail chips\n```\n", True),
        ("It is off by 1.3 % over 17 steps.", False),
    ],
)
def test_a_figure_from_nowhere_is_found(block, is_found):
    found = unsourced(f"# Page\n\n{block}\n", [filled(PHRASE, KNOWN)])
    assert bool(found) == is_found, found
    assert all(re.search(r"\d", line) for line in found)
