"""Every figure that a page states comes from somewhere: it is filled in from there, or the page says where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dovetail.report.accuracy_page import LIMITS, MEMORY, WHOLE_HEAD
from tests.e2e.recorded import check_recorded
from tests.figure_origins import unsourced
from tests.figure_sources import SOURCES
from tests.figures import PHRASES_FILE, filled, pattern, phrases_in, rewritten, says

ROOT = Path(__file__).resolve().parent.parent
PHRASES = phrases_in(PHRASES_FILE.read_text(encoding="utf-8"))
IN_CODE = "benchmarks/results/accuracy.md"  # its words are in report/accuracy_page.py, and are changed there
WRITTEN = WHOLE_HEAD + LIMITS + MEMORY  # its tables are between them, and tests/e2e/test_validate.py holds them
SLOW = {IN_CODE: pytest.mark.slow}  # four tables are fitted again
GENERATED = ("cli.md", "api.md")  # from `--help` and docstrings
KEYS = ("json.md", "spec-file.md", "glossary.md")  # say what words mean, not what was found
PAGES = [
    ROOT / "README.md",
    ROOT / IN_CODE,
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
    text = WRITTEN if name_of(page) == IN_CODE else page.read_text(encoding="utf-8")
    found = unsourced(text, PHRASES.get(name_of(page), ()))
    way_out = "name a command, a test, a record or a paper in the same sentence, or add a phrase to tests/figures.txt"
    assert not found, f"{way_out}:\n" + "\n".join(found)


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
    "words",
    [
        "It is 3 % off.",
        "It is 3 percent off.",
        "It takes 12 s.",
        "It takes 3 minutes, or 90 ns.",
        "It takes 22 us, 5 times less.",
        "It is 4.2x faster.",
        "It needs 81.5 GiB.",
        "It draws 700 W and costs 5,000 USD.",
        "The correlation is 0.99.",
        "Ranks correlate by 0.99.",
        "Off by 1.3 % over 17 steps, or 9 %.",
        "`dovetail validate` prints it. It is 3 % off.",
        "Others are 3 % off (run). It is 5 % off.",
        "`NO_SUCH_CONSTANT` is 3 %.",
        "`WAIT_S` is named here. It is 3 %.",
        "- It is 3 % off.\n- See `tests/test_figures.py`.",
        "| a | b |\n|---|---|\n| 3 % | 5 % (run) |",
        "| a |\n|---|\n| 3 % |\n| 5 % (`make bars`) |",
        "By `make bars`.\n\n| a |\n|---|\n| 3 % |",
        "It prints:\n\n```text\ngap 3.1 %\n```",
        "It is:\n\n    t = 3 us",
        "It is 3 % off, then 7 s.\n\n```console\n$ dovetail chips\nheld 3 s, 7 %\n```",
    ],
)
def test_a_figure_from_nowhere_is_found(words):
    found = unsourced(f"# Page\n\n{words}\n", [PHRASE])
    assert len(found) == 1, found
    assert re.search(r"\d", found[0])


@pytest.mark.parametrize(
    "words",
    [
        "It is 3 % off (`dovetail validate`).",
        "It is 3 % off, as arXiv:1234.5678 says.",
        "Wafers cost 3,984 USD (CSET 2020).",
        "Narayanan et al. The 3 % are theirs.",
        "It waits 30 s (`MAX_LATENCY_S`).",
        "Take 128 rows of 64 samples, 80 GiB and 900 GB/s.",
        "`3 %` in code",
        "It is off by 1.3 % over\n17 steps.",
        "| a | b |\n|---|---|\n| 3 % | `make bars` |\n| 5 % | the same |",
        "By `make bars`:\n\n| a |\n|---|\n| 3 % |",
        "By `make bars`:\n\n```text\ngap 3.1 %\n```",
        "Type:\n\n    dovetail mine bert-large --power '280 W'",
        "```sh\nsleep 3 s\n```",
        "It is 3 % off, then 7.1 s.\n\n```console\n$ dovetail chips\n2.9 %, 7.12 s\n```",
    ],
)
def test_a_figure_with_its_origin_beside_it_is_not_found(words):
    assert unsourced(f"# Page\n\n{words}\n", [PHRASE]) == []
