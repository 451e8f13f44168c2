"""Did any figure move, by as much as a bit? Every case of `cases.py` beside what was recorded of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from benchmarks.bar_replay import GOLDENS, LEAST_GOLDENS
from benchmarks.json_diff import Leaf
from tests.golden.cases import Case, cases
from tests.golden.exact import WITHIN, labelled, machine, moved, recorded, written

CASES = tuple(cases())
BLESS = "python -m pytest tests/golden --bless"


@cache
def _recorded(topic: str) -> tuple[str, dict[str, dict[str, Leaf]]]:
    return recorded(topic)


def _words(case: Case) -> str:
    """What `-k` picks this case by, and few others."""
    words = re.findall(r"[\w.-]+", f"{case.topic} {case.name}")
    return " and ".join(word for word in words if word not in ("and", "or", "not"))


@pytest.fixture(scope="module")
def blessed(bless: bool) -> Iterator[dict[str, dict[str, dict[str, Leaf]]]]:
    """Where cases put what is to be recorded, by topic; written when all of them are through."""
    new: dict[str, dict[str, dict[str, Leaf]]] = {}
    yield new
    for topic, answers in new.items() if bless else ():
        _, old = recorded(topic)
        names = [case.name for case in CASES if case.topic == topic]
        GOLDENS.mkdir(exist_ok=True)
        kept = {name: answers.get(name, old.get(name)) for name in names}
        text = written({name: leaves for name, leaves in kept.items() if leaves is not None})
        (GOLDENS / f"{topic}.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.topic}: {case.name}")
def test_no_figure_of_an_answer_moved(case: Case, bless: bool, blessed: dict[str, dict[str, dict[str, Leaf]]]) -> None:
    if bless:
        blessed.setdefault(case.topic, {})[case.name] = labelled(case)
        return
    where, known = _recorded(case.topic)
    within = 0.0 if where == machine() else WITHIN
    lines = moved(case, known.get(case.name), within)
    said = f'{case.topic}/{case.name} moved; if that is meant, say why and run `{BLESS} -k "{_words(case)}"`'
    assert not lines, "\n".join([f"{said} ({len(lines)} figures):", *lines[:20]])


def test_goldens_are_those_of_the_table_and_enough(bless: bool) -> None:
    if bless:
        pytest.skip("files are being written")
    topics = {case.topic for case in CASES}
    assert {file.stem for file in GOLDENS.glob("*.json")} == topics
    told = {(topic, name) for topic in topics for name in recorded(topic)[1]}
    assert told == {(case.topic, case.name) for case in CASES}
    assert len(told) >= LEAST_GOLDENS


def test_names_of_cases_differ() -> None:
    names = [(case.topic, case.name) for case in CASES]
    assert len(set(names)) == len(names)
