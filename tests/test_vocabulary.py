"""No name in src is of the private language that 0.1 had: what a reader of papers does not know was renamed.

The list is exact: names as 0.1 had them, by kind and, where the word is also the field's, by package. Plain words
(every, same, once, words) are not meant. A leading underscore does not make a name another one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest

from tests.source_tree import Module, source_modules

MODULE, CLASS, FUNCTION, CONSTANT, FIELD = "module", "class", "function", "constant", "field"
NAMES = (MODULE, CLASS, FUNCTION, CONSTANT)
STEP, PLAN, SEARCH = ("step", "schedule"), ("parallel", "plan"), ("search",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """Old names, as patterns of `fnmatch`, and what stands for them; of all packages where none is named."""

    old: tuple[str, ...]
    new: str
    kinds: tuple[str, ...] = NAMES
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name that a module defines, or its own."""

    name: str
    kind: str
    module: Module

    @property
    def public(self) -> str:
        return self.name.lstrip("_")


REPLACED = (
    Replaced(old=("SamePlans",), new="PlanTable"),
    Replaced(old=("Shared", "shared_on"), new="PlanContext"),
    Replaced(old=("Alike",), new="StageShapeGroup"),
    Replaced(old=("WorkFrame", "PlanFrame", "Frame"), new="ShardedPlans, ChipFreeCosts, PlanSet"),
    Replaced(old=("Senders", "Updaters", "Exchangers"), new="CommVariants, UpdateVariants, GradSyncVariants"),
    Replaced(old=("Sends", "Sent", "WAYS"), new="CollectiveCalls, CommTotals, DIRECTIONS"),
    Replaced(old=("?*_lows", "lows_s", "?*Lows"), new="lower_bounds"),
    Replaced(old=("Lines", "line_making"), new="AffineLowerBounds"),
    Replaced(old=("walked_cuts", "LeastWalk"), new="partition_1f1b"),
    Replaced(old=("aims",), new="gap_bisection", kinds=(MODULE,)),
    Replaced(old=("NEARER",), new="BISECTION_FRAC"),
    Replaced(old=("limit_senses", "LimitSense", "Lifted"), new="budget_sensitivity, relaxed"),
    Replaced(old=("MixedCluster",), new="HeterogeneousCluster"),
    Replaced(old=("parts",), new="pools", kinds=(MODULE,)),
    Replaced(old=("Part", "Piece", "Held", "Run"), new="LayerSpan, StageGroup", packages=(*STEP, *PLAN, *SEARCH)),
    Replaced(old=("*Asked", "*Said", "*Given"), new="<Verb>Request", kinds=(CLASS, CONSTANT)),
    Replaced(old=("told", "say", "nobody"), new="message, log, no_progress", kinds=(CLASS, FUNCTION)),
    Replaced(old=("Around", "fronting", "busy"), new="SearchContext and its methods", kinds=(CLASS, FUNCTION)),
    Replaced(old=("Manner", "manner", "doing"), new="verbosity"),
    Replaced(old=("?*_words", "in_words"), new="format, labels", kinds=(MODULE, FUNCTION)),
    Replaced(
        old=("waiting_s", "beside_s", "held_frac", "put_off_s"),
        new="blocking_s, overlappable_s, compute_slowdown_frac, deferrable_wgrad_s",
        kinds=(FIELD, FUNCTION),
    ),
    Replaced(old=("carried_bytes",), new="boundary_activation_bytes", kinds=(FIELD, FUNCTION)),
)


def names_in(module: Module) -> Iterator[Name]:
    """The module's own name, and its classes, functions, methods, constants, type aliases and fields of classes."""
    yield Name(name=module.name.rpartition(".")[2], kind=MODULE, module=module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Name(name=node.name, kind=FUNCTION, module=module)
        elif isinstance(node, ast.ClassDef):
            yield Name(name=node.name, kind=CLASS, module=module)
            yield from (Name(name=name, kind=FIELD, module=module) for name in _assigned(node.body))
    yield from (Name(name=name, kind=CONSTANT, module=module) for name in _assigned(module.tree.body))


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    for line in body:
        if isinstance(line, ast.Assign):
            yield from (target.id for target in line.targets if isinstance(target, ast.Name))
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id


def is_replaced(name: Name, rule: Replaced) -> bool:
    if name.kind not in rule.kinds or (rule.packages and name.module.layer not in rule.packages):
        return False
    return any(fnmatchcase(name.public, pattern) for pattern in rule.old)


def replaced_names(modules: tuple[Module, ...]) -> list[str]:
    """Every name of the list that `modules` still have: where, what it is, and what stands for it."""
    return sorted(
        f"{name.module.path}: {name.kind} {name.name}, now {rule.new}"
        for module in modules
        for name in names_in(module)
        for rule in REPLACED
        if is_replaced(name, rule)
    )


def test_no_name_of_the_replaced_vocabulary_is_in_src() -> None:
    found = replaced_names(source_modules())
    assert not found, f"{len(found)} names:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("step/a.py", "class SamePlans:\n    pass\n", "class SamePlans"),
        ("step/a.py", "class _Held:\n    pass\n", "class _Held"),
        ("workload/a.py", "class Held:\n    pass\n", ""),  # only of steps, plans and searches
        ("search/parts.py", "", "module parts"),
        ("search/a.py", "def parts():\n    pass\n", ""),
        ("search/step_lows.py", "", "module step_lows"),
        ("search/a.py", "class A:\n    def block_lows(self):\n        pass\n", "function block_lows"),
        ("search/a.py", "NEARER = 0.5\n", "constant NEARER"),
        ("files/a.py", "SpecGiven = str | None\n", "constant SpecGiven"),
        ("api/a.py", "def f():\n    def _told():\n        pass\n", "function _told"),
        ("api/a.py", "told = 1\n", ""),  # a local name or a constant is plain English
        ("report/a.py", "def shape_words():\n    pass\n\ndef words():\n    pass\n", "function shape_words"),
        ("step/a.py", "class A:\n    waiting_s: float\n", "field waiting_s"),
        ("step/a.py", "class A:\n    blocking_s: float\n\ndef every():\n    same = 1\n", ""),
    ],
)
def test_a_name_is_found_by_its_kind_and_package(path: str, text: str, expected: str) -> None:
    name = f"dovetail.{path.removesuffix('.py').replace('/', '.')}"
    found = replaced_names((Module(name=name, path=f"dovetail/{path}", text=text),))
    assert [one.split(": ")[1].split(",")[0] for one in found] == ([expected] if expected else [])


def test_no_pattern_stands_twice() -> None:
    patterns = [pattern for rule in REPLACED for pattern in rule.old]
    assert len(patterns) == len(set(patterns))
