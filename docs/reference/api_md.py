"""Writes docs/reference/api.md from signatures and docstrings: `python docs/reference/api_md.py` prints it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from dovetail import api

CALLS = (
    "simulate", "compare", "sweep", "plan", "launch", "codesign", "pareto", "mine", "network", "op", "operator_kinds",
    "schedule", "validate", "measure", "reproduce", "studies", "models", "chips", "clusters", "plans", "methods",
    "show", "model_version",
    "capture",
    "use_plugin",
    "load", "save_chart",
)  # fmt: skip
ANSWERS = (
    "Answer", "Simulation", "Comparison", "Planning", "LaunchScript", "Codesign", "Front", "Mining", "Collective",
    "Operator", "BlockSchedule", "Capture", "Validation", "Measurement", "Reproduction", "Studies", "Catalogue",
    "Entry", "Progress", "SavedAnswer",
)  # fmt: skip
VALUES = ("Model", "Chip", "Cluster", "Plan", "DovetailError", "InvalidInput", "NotModelled")
ON_JOBS = ("simulate", "compare", "sweep", "plan", "launch")  # calls on a model, a cluster and a plan
# What stands behind the names in signatures.
GIVEN = {
    "Spec": "a spec file, or a mapping with its keys",
    "ModelLike": "a catalogue name, a file (YAML, JSON, Hugging Face's config.json), a mapping, `Model` or `Capture`",
    "SpecLike": "a spec, or a model alone",
    "ClusterLike": 'a catalogue name, with its size or without ("h100x512"), a file, a mapping, or a `Cluster`',
    "PlanLike": 'a catalogue name, "tp=8,pp=4", "auto", a file, a mapping, or a `Plan`',
    "Decision": "a number or a word; for `plan` also a list",
    "ChipLike": "a catalogue name or its beginning, a file, a mapping, or a `Chip`",
    "SupportsIndex": "an integer of Python or NumPy",
    "Tell": "a function that takes a `Progress`",
    "Record": "a dict with the keys of [JSON](json.md)",
}
INTRODUCTION = """# Python

Generated from signatures and docstrings by `make bless`; do not edit. [Use Dovetail from
Python](../howto/use-from-python.md) shows how. Arguments have the names and defaults of [the command's](cli.md)
options; `help(dovetail.simulate)` gives types, `help(dovetail.Planning)` the members of an answer. An answer's
`outcome` is the model's value.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, "## What arguments may be\n"]
    parts.append("".join(f"- `{name}`: {words}\n" for name, words in GIVEN.items()))
    parts.append("## Calls\n")
    parts.append(f"`JOB` stands for `{', '.join(_of_job())}`.\n")
    parts.append("".join(_call(name) for name in CALLS))
    parts.append("## Answers\n")
    parts.append("".join(_answer(name) for name in ANSWERS))
    parts.append("## Values and errors\n")
    parts.append("".join(f"- `{name}`: {_first(getattr(api, name))}\n" for name in VALUES))
    assert {*CALLS, *ANSWERS, *VALUES} == set(api.__all__), "a name of the API is missing from its page"
    return "\n".join(parts)


def _call(name: str) -> str:
    call = getattr(api, name)
    signature = inspect.signature(call)
    names: list[str] = []
    is_named = False  # from here on arguments are given by their names
    for each in signature.parameters.values():
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not is_named:
            names.append("*")
            is_named = True
        is_starred = each.kind is inspect.Parameter.VAR_POSITIONAL
        is_named = is_named or is_starred
        names.append(f"*{each.name}" if is_starred else each.name)
    if name in ON_JOBS:
        names = [each for each in names if each not in _of_job()]
        first = next(place for place, each in enumerate(names) if each.startswith("*")) + 1
        names.insert(first, "JOB")
    answer = _unquoted(str(signature.return_annotation)).strip("'")
    return f"- `{name}({', '.join(names)}) -> {answer}`: {_first(call)}\n"


def _of_job() -> list[str]:
    """Arguments that all calls on a job have, named once."""
    first, *others = (inspect.signature(getattr(api, name)).parameters for name in ON_JOBS)
    return [name for name in first if name != "spec" and all(name in other for other in others)]


def _unquoted(text: str) -> str:
    """Annotations are kept as text, and shown as they were written."""
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", text)


def _answer(name: str) -> str:
    kind = getattr(api, name)
    members = ", ".join(f"`{member}`" for member in _members(kind)) if kind in (api.Answer, api.Simulation) else ""
    return f"- `{name}`: {_first(kind)} {members}".rstrip() + "\n"


def _members(kind: Any) -> Iterator[str]:
    """Fields, properties and methods of its own; what all answers have is said once."""
    for field in fields(kind) if is_dataclass(kind) else ():
        if kind is api.Answer or field.name != "call":
            yield field.name
    for member, value in vars(kind).items():
        is_known = kind is not api.Answer and member in vars(api.Answer)
        if not member.startswith("_") and not is_known and (isinstance(value, property) or inspect.isfunction(value)):
            yield f"{member}()" if inspect.isfunction(value) else member


def _first(value: Any) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((value.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


if __name__ == "__main__":
    sys.stdout.write(page())
