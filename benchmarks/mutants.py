"""Every mutant of the physics that the operators make, and the sample of them that is tried.

What is no physics is left as it is: annotations, docstrings and other texts, decorators, imports, what is raised, the
messages of assertions, `strict=` of a zip, alternatives of types, and patterns of a `match`.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.mutators import OPERATORS, returned, returns_numbers

SOURCES = REPOSITORY / "src" / "dovetail"
PACKAGES = ("cost", "comm", "step", "opsched", "parallel")
SAMPLE_SIZE = 320
SEED = "dovetail"
_LONGEST_SHOWN = 160  # characters of a formula in lists of mutants
_UNTOUCHED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.pattern, ast.Global, ast.Nonlocal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file below src/dovetail: the bytes from `start` to `end` become `text`."""

    file: str
    line: int
    scope: str  # the function or class it is in
    kind: str  # the operator that made it
    was: str
    becomes: str
    start: int
    end: int
    text: str
    repeat: int = 0  # which of equal changes in one scope

    @property
    def key(self) -> str:
        """What it is called, wherever its line moves to."""
        return "|".join((self.file, self.scope, self.kind, self.was, self.becomes, str(self.repeat)))

    @property
    def name(self) -> str:
        """The same without its folder: a module that moves keeps its place in the sample."""
        return Path(self.file).name + self.key.removeprefix(self.file)

    def of(self, source: str) -> str:
        """`source` with the change made."""
        whole = source.encode()
        return (whole[: self.start] + self.text.encode() + whole[self.end :]).decode()


def physics_sources(root: Path = SOURCES) -> dict[str, str]:
    """The text of every module of the four packages, by its path below `root`."""
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    return {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8") for file in files}


def body_of(source: str) -> str:
    """`source` without its imports: what a module says wherever it and others lie."""
    rows = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for row in range(node.lineno - 1, node.end_lineno or 0):
                rows[row] = ""
    return "\n".join(row for row in rows if row)


def digest_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def population(sources: Mapping[str, str]) -> list[Mutant]:
    return [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """In the order of the text; equal changes of one scope are numbered."""
    repeats: Counter[str] = Counter()
    starts = [0]
    for row in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    for node, scope, kind, made in _changes(ast.parse(source), (), None):
        target, new = _replaced(node, made)
        was, becomes = _shown(target), _shown(new)
        name = "|".join((*scope, kind, was, becomes))
        repeats[name] += 1
        yield Mutant(
            file=file,
            line=target.lineno,
            scope=".".join(scope),
            kind=kind,
            was=was,
            becomes=becomes,
            start=starts[target.lineno - 1] + target.col_offset,
            end=starts[(target.end_lineno or 0) - 1] + (target.end_col_offset or 0),
            text=f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new),
            repeat=repeats[name] - 1,
        )


def sample(
    mutants: Sequence[Mutant], sources: Mapping[str, str], size: int = SAMPLE_SIZE, seed: str = SEED
) -> list[Mutant]:
    """`size` of `mutants`: each package has its share of lines, and in it those that come first by a hash of `seed`.

    A mutant's place depends on nothing but itself, so code that changes elsewhere leaves it in the sample or out of it.
    """
    drawn: list[Mutant] = []
    shares = allotted({name: _num_lines(name, sources) for name in PACKAGES}, size)
    for package, share in shares.items():
        own = [mutant for mutant in mutants if mutant.file.startswith(f"{package}/")]
        drawn += sorted(own, key=lambda mutant: _place(mutant, seed))[:share]
    return drawn


def allotted(weights: Mapping[str, int], size: int) -> dict[str, int]:
    """`size` divided by `weights`, whole; what is left goes to the largest remainders."""
    total = sum(weights.values())
    shares = {name: size * weight // total for name, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda name: -(size * weights[name] % total))
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _place(mutant: Mutant, seed: str) -> str:
    return hashlib.sha256(f"{seed}|{mutant.name}".encode()).hexdigest()


def _num_lines(package: str, sources: Mapping[str, str]) -> int:
    return sum(text.count("\n") for file, text in sources.items() if file.startswith(f"{package}/"))


Change = tuple[ast.AST, tuple[str, ...], str, ast.AST]


def _changes(node: ast.AST, scope: tuple[str, ...], function: ast.AST | None) -> Iterator[Change]:
    """Every change at and below `node`, with the names of what it lies in."""
    if isinstance(node, _UNTOUCHED) or _is_for_types(node):
        return
    for operator in OPERATORS:
        if (operator is not returned or returns_numbers(function)) and not _is_of_types(node, function):
            yield from ((node, scope, operator.__name__, made) for made in operator(node))
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        scope = (*scope, node.name)
        function = node if isinstance(node, ast.FunctionDef) else function
    for below in _below(node):
        yield from _changes(below, scope, function)


def _below(node: ast.AST) -> Sequence[ast.AST]:
    match node:
        case ast.FunctionDef():
            return [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None), *node.body]
        case ast.ClassDef():
            return node.body
        case ast.AnnAssign():
            return [node.value] if node.value is not None else []
        case ast.Assert():
            return [node.test]
        case ast.Call(func=ast.Name(id="isinstance" | "cast")):
            return []
        case _:
            return list(ast.iter_child_nodes(node))


def _is_for_types(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.keyword(arg="strict"):
            return True
        case _:
            return False


def _is_of_types(node: ast.AST, function: ast.AST | None) -> bool:
    """`A | B` outside functions names types."""
    return function is None and isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _replaced(node: ast.AST, made: ast.AST) -> tuple[ast.expr | ast.stmt, ast.AST]:
    """What is written again: of a statement with a condition, the condition alone."""
    if isinstance(node, (ast.If, ast.While)) and isinstance(made, (ast.If, ast.While)):
        return node.test, made.test
    assert isinstance(node, (ast.expr, ast.stmt)), f"a {type(node).__name__} has no place in the text"
    return node, made


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
