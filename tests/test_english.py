"""English that people meet: per and not a, one style of numbers, and no words of our own for asking and telling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.page_rules import FENCE
from tests.per_words import SURFACE, of_text, strings

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "dovetail"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIGHT_PERCENT = re.compile(r"(?<![\w%{=:.+,*-])[-+]?\d[\d.,]*%(?![\w}])")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_says_per_where_it_means_per(page):
    found = of_text(FENCE.sub("", page.read_text(encoding="utf-8")))
    assert not found, "write 'per': " + "; ".join(found)


def test_messages_and_help_say_per_where_they_mean_per():
    modules = [file for file in sorted(SOURCE.rglob("*.py")) if file.relative_to(SOURCE).parts[0] in SURFACE]
    assert len(modules) > 200
    found = [
        f"{file.relative_to(ROOT)}: {words}" for file in modules for text in strings(file) for words in of_text(text)
    ]
    assert not found, "write 'per':\n" + "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_percents_have_a_space_before_the_sign(page):
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    found = TIGHT_PERCENT.findall(prose)
    assert not found, "write '-3.3 %': " + "; ".join(found)


@pytest.mark.parametrize(
    "words",
    ["970 tokens/s a device", "once a step", "two chunks\na stage", "14 bytes a token", "1.2 s a sample", "3 a step"],
)
def test_a_for_per_is_found(words):
    assert len(of_text(words)) == 1


@pytest.mark.parametrize(
    "words",
    [
        "on a device of stage 3",
        "how long a step is",
        "layers of a stage",
        "a second look",
        "one a time",
        "2 s at a time",
    ],
)
def test_a_that_is_an_article_is_left_alone(words):
    assert of_text(words) == []
