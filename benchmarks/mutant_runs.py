"""Whether tests notice a mutant: those that reach its line, quick ones first, until one fails.

A mutant is killed by a test that fails, by a crash, or by running over its time: three times what the tests took
unbroken and some seconds. Where no single test can be named, the same tests must have passed without the mutant just
then. Tests run in rounds, each in a fork of its own, so that the quickest few decide about most mutants. However else
a fork ends, nothing is known, and the mutant counts as one that survived.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from benchmarks.bar import REPOSITORY
from benchmarks.forked_tests import forked, load_quick_profile, module_name, replace_modules, run_tests
from benchmarks.mutants import SOURCES, Mutant
from benchmarks.reach import Marked, Reached

ROUNDS_S = (2.5, 45.0)  # CPU seconds of tests, unbroken: the first round, and all after it
FILE_S = 0.15  # CPU to collect one more test file
SLOWER = 3.0  # times the usual is an endless loop, or as good as one
START_S = 8.0  # CPU to import the package and begin, at most
OUT_OF_TIME = "out of time"
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
_FAILED = 71  # exit code of a child whose test failed
_NONE_FAILED = (0, 5)  # pytest's exit codes: all passed, none collected


@dataclass(frozen=True)
class Suite:
    """The tests there are, and the modules with the marks that they set."""

    tests: Sequence[Reached]
    modules: Mapping[str, Marked]
    sources: Mapping[str, str]

    def reaching(self, mutant: Mutant) -> list[Reached]:
        """Tests that run the line of `mutant`: the first of each function before the second of any, quick ones first.

        What runs on import is reached by tests that import its module, then by those of modules that use it. Of a
        module without marks nothing is known: the tests of its package come first, then all others.
        """
        if mutant.file not in self.modules:
            home = f"tests/unit/{Path(mutant.file).parts[0]}/"
            return sorted(_spread(self.tests), key=lambda test: not test.file.startswith(home))
        module = self.modules[mutant.file]
        mark = module.of_line[mutant.line]
        if mark not in module.on_import:
            return _spread(test for test in self.tests if mark in test.marks)
        users = [self.modules[file] for file in self.users_of(mutant.file)]
        wanted = {mark for user in users for mark in user.of_line.values() if mark not in user.on_import}
        name = module_name(mutant.file)
        direct = [test for test in self.tests if name in self.imported_by_tests[test.file]]
        others = [test for test in self.tests if wanted & test.marks and name not in self.imported_by_tests[test.file]]
        return [*_spread(direct), *_spread(others)]

    def users_of(self, file: str) -> set[str]:
        """`file` and those that import from it; of an entry that nobody imports, those that use its registry."""
        registry = f"{Path(file).parent.as_posix()}/__init__.py"
        own = self.importers.get(file, [])
        return (
            {file, *own} if own or registry not in self.sources else {file, registry, *self.importers.get(registry, ())}
        )

    @cached_property
    def importers(self) -> dict[str, list[str]]:
        """The files that import from a file, directly."""
        of_module = {module_name(file): file for file in self.sources}
        found: dict[str, list[str]] = {}
        for file, source in self.sources.items():
            for name in _imported(source):
                found.setdefault(of_module.get(name, ""), []).append(file)
        return found

    @cached_property
    def imported_by_tests(self) -> dict[str, set[str]]:
        """The modules that each test file names in its imports."""
        files = {test.file for test in self.tests}
        return {file: _imported((REPOSITORY / file).read_text(encoding="utf-8")) for file in files}


def verdicts(mutants: Sequence[Mutant], tests: Suite, num_workers: int) -> Iterator[tuple[Mutant, str]]:
    """Each of `mutants` with what killed it, or with '' where nothing did."""
    if num_workers == 1:
        yield from ((mutant, killed_by(mutant, tests)) for mutant in mutants)
        return
    with ProcessPoolExecutor(num_workers, get_context("fork")) as pool:
        yield from zip(mutants, pool.map(partial(killed_by, tests=tests), mutants), strict=True)


def killed_by(mutant: Mutant, tests: Suite) -> str:
    broken = mutant.of((SOURCES / mutant.file).read_text(encoding="utf-8"))

    def breaks() -> None:
        replace_modules({mutant.file: lambda: compile(broken, str(SOURCES / mutant.file), "exec", dont_inherit=True)})

    for chosen in rounds(tests.reaching(mutant)):
        try:
            by = first_failure(chosen, breaks)
            if by and (by in {test.test for test in chosen} or not first_failure(chosen, lambda: None)):
                return by
        except Unsettled as why:
            print(f"{mutant.file}:{mutant.line} counts as survived: {why}", file=sys.stderr, flush=True)
    return ""


class Unsettled(Exception):
    """A fork ended in a way that says nothing about the tests."""


def first_failure(chosen: Sequence[Reached], prepare: Callable[[], None]) -> str:
    """The first test that fails after `prepare`, in a fork, or how they ended together; '' where none fails."""
    if not chosen:
        return ""
    limit_s = START_S + SLOWER * _needs_s(chosen)
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "failed"

        def work() -> int:
            prepare()
            return run_tests(sorted({test.file for test in chosen}), _Judge([test.test for test in chosen], note))

        ended = forked(work, limit_s)
        if ended.is_overrun:
            return OUT_OF_TIME
        if ended.code in _NONE_FAILED:
            return ""
        if note.exists():
            return note.read_text(encoding="utf-8")
        if ended.signal in CRASHES:
            return signal.Signals(ended.signal).name
        raise Unsettled(f"its tests ended with {f'signal {ended.signal}' if ended.signal else f'code {ended.code}'}")


def rounds(tests: Sequence[Reached]) -> list[list[Reached]]:
    """`tests` in their order, as many to a round as its time allows; what is beyond all rounds is left out."""
    made: list[list[Reached]] = []
    left = list(tests)
    for most_s in ROUNDS_S:
        chosen: list[Reached] = []
        while left and _needs_s([*chosen, left[0]]) <= most_s:
            chosen.append(left.pop(0))
        made += [chosen] if chosen else []
    return made


def _imported(source: str) -> set[str]:
    """Modules that are imported, or from which something is."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _needs_s(tests: Sequence[Reached]) -> float:
    return sum(test.cpu_s for test in tests) + FILE_S * len({test.file for test in tests})


def _spread(tests: Iterable[Reached]) -> list[Reached]:
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, float, Reached]] = []
    for test in sorted(tests, key=lambda test: (test.cpu_s, test.test)):
        function = test.test.partition("[")[0]
        ranked.append((seen[function], test.cpu_s, test))
        seen[function] += 1
    return [test for _, _, test in sorted(ranked, key=lambda row: row[:2])]


class _Judge:
    """Runs the tests it is given, in their order, and ends the process at the first that fails."""

    def __init__(self, tests: Sequence[str], note: Path) -> None:
        self.place = {test: place for place, test in enumerate(tests)}
        self.note = note

    def pytest_configure(self) -> None:
        load_quick_profile()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.end_if_failed(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.end_if_failed(report)

    def end_if_failed(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            self.note.write_text(report.nodeid, encoding="utf-8")
            os._exit(_FAILED)
