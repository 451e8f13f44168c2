"""Which test runs which lines of the physics, and how long it takes: a mutant is tried on tests that reach it.

Modules are marked where a run of statements begins, so a test costs a few stores more than without. What a test file
reached is kept in build/reach, and recorded again when it or a module that it reached has changed; that modules move is
no change.
"""

from __future__ import annotations

import ast
import builtins
import json
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import CodeType
from typing import TextIO

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.bar import REPOSITORY
from benchmarks.forked_tests import forked, limit_cpu, load_quick_profile, replace_modules, run_tests
from benchmarks.mutants import SOURCES, body_of, digest_of

# What reaches physics in seconds: the most direct first, then what is recorded only for mutants that survive those.
DIRECT_FOLDERS = (
    *(f"tests/unit/{name}" for name in ("cost", "comm", "parallel", "step", "opsched", "hardware", "accuracy")),
    *("tests/conformance", "tests/golden"),
)
OTHER_FOLDERS = ("tests/validation", "tests/property", "tests/unit/search")
FOLDERS = (*DIRECT_FOLDERS, *OTHER_FOLDERS)
CACHE = REPOSITORY / "build" / "reach"
LONGEST_TEST_S = 12.0  # CPU; a test that takes longer is not asked about mutants
_MOST_LEFT_OUT = 6  # tests of a file that take too long, before the rest of the file is left out with them
_START_S = 60.0  # CPU to import and collect one file
_HITS = "__hits__"
Kept = tuple[float, dict[str, list[int]]]  # CPU seconds, and marks of each module by the digest of its body
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A module with its marks, numbered from `first`: the one that each line belongs to, and those set on import."""

    tree: ast.Module
    first: int
    num_marks: int
    of_line: Mapping[int, int]
    on_import: set[int]

    def own(self, hits: npt.NDArray[np.int64]) -> list[int]:
        """Which of its marks are among `hits`, numbered from 0."""
        mine: list[int] = (hits[(hits >= self.first) & (hits < self.first + self.num_marks)] - self.first).tolist()
        return mine


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One test: its CPU time and the marks it set."""

    test: str
    cpu_s: float
    marks: frozenset[int]

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


def marked(source: str, first: int = 0) -> Marked:
    """`source` with a mark before each run of statements that either all run or none do, exceptions aside."""
    tree = ast.parse(source)
    of_line: dict[int, int] = {}
    on_import: set[int] = set()
    numbers = count(first)

    def mark(body: list[ast.stmt], is_import: bool) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        here = None
        for statement in body:
            if _is_prologue(statement):
                made.append(statement)
                continue
            if here is None:
                here = next(numbers)
                made.append(_store(here, statement))
                on_import.update({here} if is_import else ())
            of_line.update(dict.fromkeys(range(statement.lineno, (statement.end_lineno or 0) + 1), here))
            below(statement, is_import and not isinstance(statement, ast.FunctionDef))
            made.append(statement)
            here = None if isinstance(statement, _COMPOUND) else here
        return made

    def below(statement: ast.AST, is_import: bool) -> None:
        for name in ("body", "orelse", "finalbody"):
            if isinstance(inner := getattr(statement, name, None), list) and inner:
                setattr(statement, name, mark(inner, is_import))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            below(part, is_import)

    tree.body = mark(tree.body, True)
    return Marked(
        tree=ast.fix_missing_locations(tree),
        first=first,
        num_marks=next(numbers) - first,
        of_line=of_line,
        on_import=on_import,
    )


def all_marked(sources: Mapping[str, str]) -> dict[str, Marked]:
    """Every module of `sources`, their marks numbered through."""
    made: dict[str, Marked] = {}
    first = 0
    for file, source in sources.items():
        made[file] = marked(source, first)
        first += made[file].num_marks
    return made


def reached(
    sources: Mapping[str, str], modules: Mapping[str, Marked], folders: Sequence[str] = FOLDERS
) -> list[Reached]:
    """Every test of `folders` that passes and is quick enough, as it is kept or, where it is not, recorded now."""
    CACHE.mkdir(parents=True, exist_ok=True)
    firsts = {digest_of(body_of(source)): modules[file].first for file, source in sources.items()}
    found: list[Reached] = []
    for file in test_files(folders):
        kept = CACHE / f"{digest_of(body_of((REPOSITORY / file).read_text(encoding='utf-8')))}.json"
        tests = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
        if tests is None or not all(body in firsts for _, marks in tests.values() for body in marks):
            tests = _recorded(file, sources, modules)
            kept.write_text(json.dumps(tests), encoding="utf-8")
            print(f"recorded {file}", file=sys.stderr, flush=True)
        for test, (cpu_s, marks) in tests.items():
            own = frozenset(firsts[body] + mark for body, places in marks.items() for mark in places)
            found.append(Reached(test=f"{file}::{test}", cpu_s=cpu_s, marks=own))
    return found


def test_files(folders: Sequence[str]) -> list[str]:
    files = (file for folder in folders for file in sorted((REPOSITORY / folder).rglob("test_*.py")))
    return [file.relative_to(REPOSITORY).as_posix() for file in files]


def _recorded(file: str, sources: Mapping[str, str], modules: Mapping[str, Marked]) -> dict[str, Kept]:
    """What each test of `file` that passes took and reached. One that takes too long ends the child: others go on."""
    tests: dict[str, Kept] = {}
    passed_over: set[str] = set()
    bodies = [(digest_of(body_of(source)), modules[name]) for name, source in sources.items()]
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        while True:
            notes.write_text("", encoding="utf-8")
            forked(partial(_record, file, modules, notes, {*tests, *passed_over}), _START_S)
            lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
            for line in lines:
                if "hits" in line:
                    hits = np.array(line["hits"], dtype=np.int64)
                    tests[line["test"]] = (line["cpu_s"], {body: own for body, one in bodies if (own := one.own(hits))})
            started = [line["started"] for line in lines if "started" in line]
            is_cut_short = len(started) > sum("cpu_s" in line for line in lines)
            if not is_cut_short or len(passed_over) == _MOST_LEFT_OUT:
                return tests
            print(f"  left out: {file}::{started[-1]}", file=sys.stderr, flush=True)
            passed_over.add(started[-1])


def _record(file: str, modules: Mapping[str, Marked], notes: Path, known: Collection[str]) -> int:
    """In a child: the tests of `file` but for `known`, noted one by one."""
    hits = bytearray(sum(module.num_marks for module in modules.values()))
    vars(builtins)[_HITS] = hits
    replace_modules({name: partial(_code, name, module) for name, module in modules.items()})
    with notes.open("a", encoding="utf-8") as lines:
        run_tests([file], _Recorder(hits, known, lines))
    return 0


def _code(file: str, module: Marked) -> CodeType:
    return compile(module.tree, str(SOURCES / file), "exec", dont_inherit=True)


class _Recorder:
    """Notes each test that passes, with its marks."""

    def __init__(self, hits: bytearray, known: Collection[str], lines: TextIO) -> None:
        self.hits, self.known, self.lines, self.has_passed = hits, known, lines, False

    def pytest_configure(self) -> None:
        load_quick_profile()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        quick = [item for item in items if not item.get_closest_marker("slow") and not _reads_clock(item)]
        items[:] = [item for item in quick if item.nodeid.partition("::")[2] not in self.known]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        test = item.nodeid.partition("::")[2]
        self.note(started=test)
        limit_cpu(LONGEST_TEST_S)
        self.hits[:] = bytes(len(self.hits))
        self.has_passed = True
        began_s = time.process_time()
        done = yield
        cpu_s = round(time.process_time() - began_s, 4)
        hits = np.flatnonzero(np.frombuffer(self.hits, dtype=np.uint8)).tolist()
        self.note(test=test, cpu_s=cpu_s, **({"hits": hits} if self.has_passed else {}))
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_passed = self.has_passed and report.outcome == "passed"

    def note(self, **line: object) -> None:
        self.lines.write(json.dumps(line) + "\n")
        self.lines.flush()


def _reads_clock(item: pytest.Item) -> bool:
    """A test of how long something takes may fail on a busy machine, whatever is broken or not."""
    names = getattr(getattr(item, "function", None), "__code__", None)
    return names is not None and bool({"process_time", "perf_counter", "monotonic"} & {*names.co_names})


def _is_prologue(statement: ast.stmt) -> bool:
    is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return is_future or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _store(number: int, where: ast.stmt) -> ast.stmt:
    [made] = ast.parse(f"{_HITS}[{number}] = 1").body
    return ast.copy_location(made, where)
