"""Every name at the surface is made of words of the glossary: options, keys of JSON and of specs, what Python exports.

A name is cut at `_`, `-` and where CamelCase begins a word. A word is known where it, or what is left of it without an
ending of `ENDINGS`, is a word of a headword of docs/reference/glossary.md, or of plain_words.txt. Values (names of a
catalogue, of a policy, of a unit) are not meant, nor the keys of files that are another tool's.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import dovetail
import dovetail.api.requests
import dovetail.files
from dovetail.api.requests.option import Request
from dovetail.files.chip import _chip_shape
from dovetail.files.job import _workload_shape
from dovetail.files.model import _model_shape
from dovetail.files.plan import _plan_shape
from dovetail.files.schema import Shape
from tests.page_rules import ROOT, glossary_heads, glossary_words, options_of

PLAIN_WORDS = ROOT / "tests" / "plain_words.txt"
OTHERS_FILES = ("dovetail.files.phaze_dp",)  # PHAZE's own format
# What may follow a known word, and what then stands for the ending: axes is axis, dies is die, sliding is slide.
ENDINGS = (("ies", "y"), ("es", "is"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"))
NOT_KEYS = {"bf16", "et"}  # of a page of keys: values, and what a file's name ends in


def words_of(name: str) -> list[str]:
    """`num_kv_heads`, `--kv-heads` and `KvHeads` in words, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def stems(word: str) -> Iterator[str]:
    """`word`, and what it may be a form of."""
    yield word
    for ending, rest in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word.removesuffix(ending) + rest
            yield stem
            if ending in ("ing", "ed") and not rest and stem[-1] == stem[-2:-1]:  # fitted is fit
                yield stem[:-1]


@cache
def headwords() -> frozenset[str]:
    """Every word of the glossary's headwords, and the plain words."""
    texts = [*glossary_heads(), *plain_words()]
    whole = {word for text in texts for word in re.findall(r"[a-z0-9]+", text.lower())}  # ZeRO is one word
    return frozenset(whole | {word for text in texts for word in words_of(text)})


def plain_words() -> list[str]:
    """Everyday English, and words that mean what they mean in Megatron-LM, PyTorch, NCCL and ISCA papers."""
    listed = PLAIN_WORDS.read_text(encoding="utf-8")
    return [word.strip() for word in listed.strip().removesuffix(".").replace("\n", " ").split(",")]


@cache
def surface() -> dict[str, list[str]]:
    """Every name that people see, and where it stands."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for command, options in options_of().items():
        for option in options:
            found[option].append(f"an option of dovetail {command}".rstrip())
    for request in (one for one in _below(Request) if one.__module__.startswith("dovetail.")):
        for each in request.parameters:
            found[each.name].append(f"an argument of dovetail.{request.function.__name__}")
    for shape in _shapes():
        for name, field in shape.model_fields.items():
            found[field.alias or name].append(f"a key of {shape.__name__.strip('_').removesuffix('Shape')} in files")
    for key in re.findall(r"`([a-z][a-z0-9_]*)`", (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")):
        found[key].append("a key in docs/reference/json.md")
    for name in dovetail.__all__:
        value = getattr(dovetail, name)
        if inspect.isclass(value) or callable(value):
            found[name].append(f"dovetail.{name}")
    return {name: sorted(set(where)) for name, where in sorted(found.items()) if name not in NOT_KEYS}


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for package in (dovetail.files, dovetail.api.requests):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting: list[type[Any]] = [kind]
    while waiting:
        below: list[type[Any]] = waiting.pop().__subclasses__()
        waiting += below
        yield from below


def _shapes() -> Iterator[type[Shape]]:
    """What is read of files, those shapes included that are made of dataclasses when they are first needed."""
    _model_shape(has_base=False)
    _chip_shape()
    _plan_shape()
    _workload_shape()
    yield from (shape for shape in _below(Shape) if shape.__module__ not in OTHERS_FILES)


def unknown_words() -> list[str]:
    """A line for each word of the surface that the glossary has not: the word, names with it, where they stand."""
    known, found = headwords(), defaultdict(list)
    for name, where in surface().items():
        for word in dict.fromkeys(words_of(name)):
            if not word.isdigit() and not known.intersection(stems(word)):
                found[word].append(f"{name} ({where[0]})")
    return [f"{word}: {', '.join(names[:3])}" for word, names in sorted(found.items())]


def test_every_name_at_the_surface_is_made_of_words_of_the_glossary() -> None:
    found = unknown_words()
    way_out = (
        "use the word that Megatron-LM, PyTorch, NCCL or a paper has; where that is a new word here, give it a row in "
        "docs/reference/glossary.md; everyday English goes into tests/plain_words.txt"
    )
    assert not found, f"{len(found)} words are not in the glossary ({way_out}):\n" + "\n".join(found)


def test_plain_words_stand_in_order_and_are_used_and_have_no_row() -> None:
    listed = plain_words()
    assert listed == sorted(set(listed))
    used = {stem for name in surface() for word in words_of(name) for stem in stems(word)}
    assert [word for word in listed if word not in used] == [], "plain words that no name has: leave them out"
    assert [word for word in listed if word in glossary_words()] == [], "plain words that have a row too"


def test_every_kind_of_name_is_collected() -> None:
    names = surface()
    for name in ("--global-batch", "global_batch", "zero_stage", "hbm", "step_s", "Simulation", "simulate", "restart"):
        assert name in names, name
    assert len(names) > 800


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("num_kv_heads", ["num", "kv", "heads"]),
        ("--kv-heads", ["kv", "heads"]),
        ("LaunchScript", ["launch", "script"]),
        ("MFU", ["mfu"]),
        ("p90_frac", ["p90", "frac"]),
    ],
)
def test_a_name_is_cut_into_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("word", "stem"),
    [("axes", "axis"), ("fitted", "fit"), ("sharding", "shard"), ("dies", "die"), ("studies", "study")],
)
def test_a_form_of_a_word_is_known_by_its_stem(word: str, stem: str) -> None:
    assert stem in stems(word)
