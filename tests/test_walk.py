"""The page that leads an engineer through the code names what is there: modules, functions, rows and the whole tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture_rules import EDGES, NEIGHBOURS, ROW_OF, ROWS
from tests.source_tree import PACKAGE, Module, source_modules

ROOT = Path(__file__).resolve().parent.parent
WALK = ROOT / "docs" / "reference" / "walk.md"
# a module, and behind it names that it defines
NAMED = re.compile(r"`((?:\w+/)*\w+\.py)`((?:\s+`[A-Za-z_]\w*`)+)")


def walk() -> str:
    return WALK.read_text(encoding="utf-8")


def modules() -> dict[str, Module]:
    """By their path below the package."""
    return {module.path.removeprefix(f"{PACKAGE}/"): module for module in source_modules()}


def defined(module: Module) -> set[str]:
    return {
        node.name
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def missing_names(text: str, known: dict[str, Module]) -> list[str]:
    """Functions and classes that a page finds in a module which does not define them."""
    return [
        f"{path} has no {name}"
        for path, names in NAMED.findall(text)
        for name in re.findall(r"\w+", names)
        if path not in known or name not in defined(known[path])
    ]


def tree_of(text: str) -> Iterator[tuple[str, bool]]:
    """Folders of the page's tree, and whether each is marked as a registry."""
    block = text.partition("```text\n")[2].partition("```")[0]
    above: list[str] = []
    for indent, name, mark in re.findall(r"^( *)(\w+)/( \*)?", block, re.MULTILINE):
        above = [*above[: len(indent) // 2], name]
        yield "/".join(above), bool(mark)


def registries() -> set[str]:
    """Packages whose modules a registry imports."""
    found = set()
    for module in source_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Subscript) and len(node.args) > 1:
                function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
                if isinstance(function, ast.Name) and function.id == "Registry":
                    where = node.args[1]
                    found.add(str(where.value) if isinstance(where, ast.Constant) else module.name)
    return {name.removeprefix(f"{PACKAGE}.").replace(".", "/") for name in found}


def test_every_module_and_function_of_the_walk_is_there():
    text, known = walk(), modules()
    assert len(NAMED.findall(text)) > 30
    missing = missing_names(text, known)
    assert not missing, "\n" + "\n".join(missing)


def test_the_rows_of_the_walk_are_those_that_imports_are_held_to():
    told = {
        row: tuple(name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([\w./]+)`", packages))
        for row, packages in re.findall(r"^\| ([a-z]+) \| ((?:`[\w./]+` ?)+)\|", walk(), re.MULTILINE)
    }
    assert told == {row: layers for row, layers in ROWS if row != "start"}


def test_the_tree_of_the_walk_is_the_tree():
    told = dict(tree_of(walk()))
    folders = {module.path.removeprefix(f"{PACKAGE}/").rpartition("/")[0] for module in source_modules()} - {""}
    assert set(told) == folders
    assert {folder for folder, is_registry in told.items() if is_registry} == registries()


def imported(module: Module) -> set[tuple[str, str]]:
    """What a module imports of the package: paths below it, and names in them."""
    return {
        (node.module.removeprefix(f"{PACKAGE}.").replace(".", "/"), alias.name)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{PACKAGE}.")
        for alias in node.names
    }


def test_the_walk_names_every_function_that_evaluate_calls():
    module = modules()["evaluate.py"]
    [whole] = [node for node in module.tree.body if isinstance(node, ast.FunctionDef) and node.name == "evaluate"]
    called = {
        node.func.id for node in ast.walk(whole) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    named = {name for _, names in NAMED.findall(walk()) for name in re.findall(r"\w+", names)}
    unnamed = called & {name for _, name in imported(module)} - named
    assert not unnamed, f"evaluate calls {', '.join(sorted(unnamed))}; say so in the rows below it"


def test_the_walk_names_what_of_the_edges_asks_the_model_itself():
    known = modules()
    asked = {
        (path.removesuffix(".py"), name)
        for path, names in NAMED.findall(walk())
        for name in re.findall(r"[a-z]\w+", names)
        if path.partition("/")[0].removesuffix(".py") not in EDGES | {"report"}
    }
    asking = {
        path for path, module in known.items() if path.startswith(("cli/", "explorer/")) and imported(module) & asked
    }
    told = re.search(r"modules call the model directly:\s(.*?)\n\n", walk(), re.DOTALL)
    assert told
    assert asking == set(re.findall(r"`((?:cli|explorer)/\w+\.py)`", told[1]))


def test_neighbours_of_a_row_stand_before_those_that_import_them():
    rows = dict(ROWS)
    for layer, others in NEIGHBOURS.items():
        row = rows[ROW_OF[layer]]
        assert all(row.index(other) < row.index(layer) for other in others), layer


def test_a_function_that_is_not_there_is_found():
    known = modules()
    page = "`evaluate.py` `evaluate`\n  `guess`: `other`\n`parallel/plan.py` `Plan`, `parallel/gone.py` `x`"
    assert missing_names(page, known) == ["evaluate.py has no guess", "parallel/gone.py has no x"]
