"""Today's oversized modules and functions, pinned in a list that may only shrink.

    python -m tests.size_ratchet                   what is over the limit, and which pins can be lowered
    python -m tests.size_ratchet --write           lower pins and drop the ones no longer needed
    python -m tests.size_ratchet --write --grow    also pin new or larger offenders: say why in the commit

A function is measured without its decorators and its docstring, for explaining is not what makes it long. One that does
nothing but return a value, as a catalogue entry does, is data and not measured.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.source_tree import Module, source_modules

MODULE_LINES = 300
FUNCTION_LINES = 30
RATCHET_FILE = Path(__file__).with_name("size_ratchet.json")

Sizes = dict[str, int]


def oversized(
    modules: Iterable[Module], module_lines: int = MODULE_LINES, function_lines: int = FUNCTION_LINES
) -> Sizes:
    """Lines of every module and function over its limit, by `path` or `path::Class.function`."""
    sizes: Sizes = {}
    for module in modules:
        if len(module.lines) > module_lines:
            sizes[module.path] = len(module.lines)
        for name, function in _functions(module.tree):
            if (num_lines := _function_lines(function)) > function_lines:
                key = f"{module.path}::{name}"
                sizes[key] = max(num_lines, sizes.get(key, 0))
    return dict(sorted(sizes.items()))


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        name = f"{prefix}{child.name}." if isinstance(child, ast.FunctionDef | ast.ClassDef) else prefix
        yield from _functions(child, name)


def _function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    num_lines = _num_lines(function)
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        num_lines -= _num_lines(body[0])
        body = body[1:]
    is_data = len(body) == 1 and isinstance(body[0], ast.Return)
    return 0 if is_data else num_lines


def _num_lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def size_violations(sizes: Sizes, pinned: Sizes) -> list[str]:
    """Offenders that are new, or larger than they were pinned."""
    problems = []
    for name, num_lines in sizes.items():
        limit = FUNCTION_LINES if "::" in name else MODULE_LINES
        if name not in pinned:
            problems.append(f"{name} has {num_lines} lines, over the limit of {limit}; split it")
        elif num_lines > pinned[name]:
            problems.append(f"{name} has {num_lines} lines and was pinned at {pinned[name]}; it may only shrink")
    return problems


def slack(sizes: Sizes, pinned: Sizes) -> list[str]:
    """Pins that can be lowered or dropped."""
    return [
        f"{name} is pinned at {pin} and now has {sizes[name]} lines"
        if name in sizes
        else f"{name} is pinned at {pin} and is no longer over the limit"
        for name, pin in pinned.items()
        if sizes.get(name, 0) < pin
    ]


def lowered(sizes: Sizes, pinned: Sizes) -> Sizes:
    """The pins after a shrink: never a new name, never a larger number."""
    return {name: min(sizes[name], pin) for name, pin in pinned.items() if name in sizes}


def read_pins(file: Path = RATCHET_FILE) -> Sizes:
    pins: Sizes = json.loads(file.read_text(encoding="utf-8"))
    return pins


def main(arguments: Sequence[str] | None = None, file: Path = RATCHET_FILE, sizes: Sizes | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.size_ratchet", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="lower pins and drop the ones no longer needed")
    parser.add_argument("--grow", action="store_true", help="with --write, also pin new or larger offenders")
    options = parser.parse_args(arguments)
    sizes = oversized(source_modules()) if sizes is None else sizes
    if options.write:
        pins = sizes if options.grow else lowered(sizes, read_pins(file))
        file.write_text(json.dumps(pins, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    pinned = read_pins(file)
    problems = size_violations(sizes, pinned)
    for line in problems:
        print(line)
    for line in slack(sizes, pinned):
        print(f"{line}; run `make ratchet`")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
