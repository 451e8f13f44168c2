"""Requests and who reads them, as functions: modules in, one line for each thing that was forgotten out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from dovetail.api.requests.option import Request
from tests.source_tree import Module

OWN = {name for name in dir(Request) if not name.startswith("_")}  # methods, not options


def reads(name: str, modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """(where, attribute) of every value of the class `name` that a function takes or makes."""
    for module in modules:
        if name not in module.text:  # reading the trees of all takes a minute
            continue
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef | ast.ClassDef):
                continue
            known = set(_typed(function, name))
            for node in ast.walk(function) if known else ():
                if isinstance(node, ast.Attribute) and _dotted(node.value) in known:
                    yield module.at(node), node.attr


def _dotted(node: ast.expr) -> str:
    """`x` or `self.x`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"self.{node.attr}" if isinstance(node, ast.Attribute) and _dotted(node.value) == "self" else ""


def _typed(function: ast.FunctionDef | ast.ClassDef, name: str) -> Iterator[str]:
    """Expressions of a function or class that are of the class `name`: parameters, fields, and what is made of it."""
    if isinstance(function, ast.FunctionDef):
        for each in (*function.args.args, *function.args.kwonlyargs):
            if each.annotation is not None and name in _words(each.annotation):
                yield each.arg
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and name in _words(node.annotation):
            yield f"self.{ast.unparse(node.target)}"
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and name in _words(node.value.func):
            yield ast.unparse(node.targets[0])


def _words(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def parts_taken(name: str, modules: Iterable[Module]) -> set[str]:
    """Names of the dataclasses that are taken from a value of the class `name` by `part`."""
    found = set()
    for module in modules:
        if name not in module.text:
            continue
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            known = set(_typed(function, name))
            for node in ast.walk(function) if known else ():
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if is_call and node.func.attr == "part" and _dotted(node.func.value) in known:  # type: ignore[attr-defined]
                    found.add(ast.unparse(node.args[0]))  # type: ignore[attr-defined]
    return found


def unread(request: type[Request], parts: dict[str, Any], modules: Iterable[Module]) -> list[str]:
    """Options that change nothing: no function reads them of the request, or of a dataclass that is taken from it."""
    modules = tuple(modules)
    own = {name for _, name in reads(request.__name__, modules)}
    for part in parts_taken(request.__name__, modules):
        assert is_dataclass(parts[part]), part
        read = {name for _, name in reads(part, modules)}
        own |= {each.name for each in fields(parts[part]) if each.name in read}
    return [
        f"{request.__name__} has {each.name}, which nothing reads: use request.{each.name}, or take the option out"
        for each in request.parameters
        if each.name not in own
    ]


def unknown(request: type[Request], modules: Iterable[Module]) -> list[str]:
    """Attributes that are read of a request and are no option of it."""
    known = {each.name for each in request.parameters} | OWN
    return [
        f"{where}: {request.__name__} has no {name}"
        for where, name in reads(request.__name__, modules)
        if name not in known and not name.startswith("_")
    ]


def unoffered(request: type[Request]) -> list[str]:
    """Options that the explorer's page of a call passes over in silence."""
    return [
        f"the page of {request.function.__name__} ignores {each.name}: give its Option a form label, or say no_form why"
        for each in request.parameters
        if not each.option.form and not each.option.no_form
    ]


def speechless(request: type[Request]) -> list[str]:
    """Options whose help is no sentence."""
    return [
        f"{request.function.__name__} says nothing of {each.name}: give its Option a sentence that ends in a full stop"
        for each in request.parameters
        if not each.option.help.endswith(".") or " " not in each.option.help
    ]
