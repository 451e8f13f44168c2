"""The mutation benchmark: each operator makes the change it names, the sample repeats, and the record adds up."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from benchmarks import mutations
from benchmarks.bar import REPOSITORY
from benchmarks.bar_mutations import recorded_bars
from benchmarks.forked_tests import module_name
from benchmarks.mutant_runs import FILE_S, ROUNDS_S, Suite, rounds
from benchmarks.mutants import PACKAGES, Mutant, allotted, mutants_of, physics_sources, population, sample
from benchmarks.mutation_records import digest, recorded, recorded_rows, row, systematic, wilson
from benchmarks.mutators import OPERATORS
from benchmarks.reach import FOLDERS, Reached, all_marked, marked

CHANGES = [  # operator, source, and every change it makes
    ("arithmetic", "x = a + b", ["x = (a - b)"]),
    ("arithmetic", "x = a * b / c", ["x = (a * b * c)", "x = (a / b) / c"]),
    ("arithmetic", "x = a // b", ["x = (a / b)"]),
    ("arithmetic", "x += 'text'", []),
    ("arithmetic", "x = rows + (1, 2)", []),
    ("arithmetic", "x -= y", ["x += y"]),
    ("comparison", "x = a < b", ["x = (a >= b)"]),
    ("comparison", "x = a in b", ["x = (a not in b)"]),
    ("comparison", "x = 0 < a <= b", ["x = (0 >= a <= b)", "x = (0 < a > b)"]),
    ("boundary", "x = a < b", ["x = (a <= b)"]),
    ("boundary", "x = a == b", []),
    ("constant", "x = (0, 1, 7, 0.0, 2.5)", ["1", "0", "8", "1.0", "5.0"]),
    ("constant", "x = True", ["x = (False)"]),
    ("constant", "x = 'text'", []),
    ("call", "x = min(a, b)", ["x = (max(a, b))"]),
    ("call", "x = np.maximum(a, b).sum()", ["x = (np.maximum(a, b).max())", "x = (np.minimum(a, b)).sum()"]),
    ("call", "x = math.ceil(a)", ["x = (math.floor(a))"]),
    ("call", "x = abs(a)", ["x = (a)"]),
    ("logic", "x = a and b", ["x = (a or b)"]),
    ("logic", "x = not a", ["x = (a)"]),
    ("logic", "if a:\n    x = b", ["if (not a):\n    x = b"]),
    ("logic", "if a == b:\n    x = b", []),
    ("sign", "x = -a", ["x = (a)"]),
    ("returned", "def f() -> float:\n    return a", ["def f() -> float:\n    return -a"]),
    ("returned", "def f() -> str:\n    return a", []),
    ("deletion", "rows.append(a)", ["pass"]),
    ("deletion", "x[0] = a", ["pass"]),
    ("deletion", "x = a", []),
]
UNTOUCHED = [
    "def f(x: Literal[1] = a) -> Array[2]:\n    '''3 + 4'''",
    "x: Tuple[3] = a",
    "raise InvalidInput(1 + a)",
    "x = f'{a + 1} of {b * 2}'",
    "if TYPE_CHECKING:\n    x = 1 + 2",
    "@register(1 + 2)\nclass C:\n    pass",
    "__all__ = names[1]",
    "x = zip(a, b, strict=True)",
    "Amount = float | Array",
    "from a import b",
    "match a:\n    case 1:\n        x = b",
]


@cache
def every_mutant() -> list[Mutant]:
    return population(physics_sources())


def made(source: str, kind: str) -> list[str]:
    return [mutant.of(source) for mutant in mutants_of("a.py", source) if mutant.kind == kind]


@pytest.mark.parametrize(("kind", "source", "changed"), CHANGES, ids=lambda value: str(value)[:40])
def test_an_operator_makes_the_change_it_names_and_no_other(kind: str, source: str, changed: list[str]) -> None:
    found = made(source, kind)
    if kind == "constant" and len(changed) > 1:
        found = [mutant.becomes for mutant in mutants_of("a.py", source) if mutant.kind == kind]
    assert sorted(found) == sorted(changed)


def test_every_operator_is_tried_above() -> None:
    assert {operator.__name__ for operator in OPERATORS} == {kind for kind, _, _ in CHANGES}


@pytest.mark.parametrize("source", UNTOUCHED)
def test_what_is_no_physics_stays_as_it_is(source: str) -> None:
    assert list(mutants_of("a.py", source)) == []


def test_an_assertion_is_broken_but_not_its_message() -> None:
    assert made("assert a < b, c + d", "boundary") == ["assert (a <= b), c + d"]
    assert made("assert a < b, c + d", "arithmetic") == []


def test_a_change_keeps_the_order_of_operations_and_letters_beyond_ascii_in_place() -> None:
    assert made("x = 'µ', a * b * c", "arithmetic") == ["x = 'µ', (a * b / c)", "x = 'µ', (a / b) * c"]


def test_equal_changes_of_one_function_have_different_names() -> None:
    found = list(mutants_of("a.py", "def f():\n    x = a + b\n    y = a + b"))
    assert [mutant.repeat for mutant in found] == [0, 1]
    assert len({mutant.key for mutant in found}) == 2


def test_all_mutants_have_their_own_names_and_change_their_file() -> None:
    sources = physics_sources()
    assert len({mutant.key for mutant in every_mutant()}) == len(every_mutant())
    assert {mutant.file.partition("/")[0] for mutant in every_mutant()} == set(PACKAGES)
    whole = {file: source.encode() for file, source in sources.items()}
    assert all(one.text.encode() != whole[one.file][one.start : one.end] for one in every_mutant())


def test_the_sample_is_the_same_every_time_and_still_python() -> None:
    sources = physics_sources()
    drawn = sample(every_mutant(), sources)
    assert drawn == sample(list(reversed(every_mutant())), sources)
    for mutant in drawn[::16]:
        assert ast.dump(ast.parse(mutant.of(sources[mutant.file]))) != ast.dump(ast.parse(sources[mutant.file]))


def test_a_larger_sample_holds_the_smaller_one_and_other_files_do_not_move_it() -> None:
    sources = physics_sources()
    small = {mutant.key for mutant in sample(every_mutant(), sources, 64)}
    assert small < {mutant.key for mutant in sample(every_mutant(), sources, 320)}
    some = [mutant for mutant in every_mutant() if not mutant.file.startswith("parallel/memory")]
    kept = {mutant.key for mutant in sample(some, sources, 64)}
    assert {key for key in small if not key.startswith("parallel/memory")} <= kept


def test_a_sample_is_divided_as_lines_are_and_nothing_is_lost_to_rounding() -> None:
    assert allotted({"a": 1, "b": 2, "c": 4}, 10) == {"a": 1, "b": 3, "c": 6}


def test_marks_tell_branches_apart_and_know_what_runs_on_import() -> None:
    found = marked("X = 1\ndef f(a):\n    if a:\n        return 1\n    return 2\nY = 2\n", first=5)
    lines = found.of_line
    assert lines[1] == lines[6]
    assert len({lines[1], lines[3], lines[4], lines[5]}) == found.num_marks == 4
    assert found.on_import == {lines[1]}
    hits = bytearray(9)
    names: dict[str, object] = {"__hits__": hits}
    exec(compile(found.tree, "a.py", "exec"), names)
    names["f"](0)  # type: ignore[operator]
    assert [mark for mark in range(9) if hits[mark]] == sorted({lines[1], lines[3], lines[5]})


def test_a_mutant_is_tried_on_tests_that_reach_its_line_and_quick_ones_first() -> None:
    source = "X = 1\n\n\ndef f(a):\n    return a + 1\n\n\ndef g(a):\n    return a - 1\n"
    modules = all_marked({"cost/a.py": source})
    in_f, in_g = (modules["cost/a.py"].of_line[line] for line in (5, 9))
    tests = [
        Reached(test="tests/test_mutants.py::slow", cpu_s=2.0, marks=frozenset({in_f})),
        Reached(test="tests/test_mutants.py::quick[1]", cpu_s=0.1, marks=frozenset({in_f})),
        Reached(test="tests/test_mutants.py::quick[2]", cpu_s=0.2, marks=frozenset({in_f})),
        Reached(test="tests/test_mutants.py::other", cpu_s=0.1, marks=frozenset({in_g})),
    ]
    known = Suite(tests, modules, {"cost/a.py": source})
    mutants = {mutant.line: mutant for mutant in mutants_of("cost/a.py", source) if mutant.kind != "arithmetic"}
    assert [test.test for test in known.reaching(mutants[5])] == [
        "tests/test_mutants.py::quick[1]",
        "tests/test_mutants.py::slow",
        "tests/test_mutants.py::quick[2]",
    ]
    assert {test.test for test in known.reaching(mutants[1])} == {test.test for test in tests}


def test_rounds_keep_to_their_time() -> None:
    most_s = ROUNDS_S[0]
    tests = [Reached(test=f"t.py::{i}", cpu_s=most_s / 4, marks=frozenset({0})) for i in range(5)]
    first, second = rounds(tests)
    assert first + second == tests
    assert len(first) * most_s / 4 + FILE_S <= most_s


FORKED = """
import os
import signal

from benchmarks import mutant_runs
from benchmarks.forked_tests import import_shared
from benchmarks.mutants import Mutant
from benchmarks.reach import Reached

import_shared()
mutant_runs.START_S = 2.0
gone = Reached(test="tests/no_such_file.py::test", cpu_s=0.1, marks=frozenset())
name = "tests/unit/cost/test_systolic.py::test_overlap_never_slows_and_no_array_beats_its_multipliers"
suite = mutant_runs.Suite([Reached(test=name, cpu_s=0.1, marks=frozenset())], {}, {})
blank = dict(file="cost/systolic.py", line=1, scope="", kind="", was="", becomes="", start=0)
for text, end in (("", 0), ("raise ValueError", 10**9), ("while True: pass", 10**9)):
    print(mutant_runs.killed_by(Mutant(**blank, text=text, end=end), suite) or "survived")
print(mutant_runs.killed_by(Mutant(**blank, text="", end=0), mutant_runs.Suite([gone], {}, {})) or "survived")
for spoil in (lambda: 1 / 0, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    try:
        print(mutant_runs.first_failure(suite.tests, spoil))
    except mutant_runs.Unsettled:
        print("unsettled")
print(mutant_runs.first_failure(suite.tests, lambda: os.kill(os.getpid(), signal.SIGSEGV)))
print(mutant_runs.first_failure([], lambda: 1 / 0) == "")
"""


def test_a_fork_spares_a_sound_module_and_kills_a_broken_and_an_endless_one(monkeypatch) -> None:
    """In a process of its own, for this one has imported the package."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "src"))))
    run = subprocess.run([sys.executable, "-c", FORKED], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    *tried, last = run.stdout.split()
    assert tried == [
        *("survived", "tests/unit/cost/test_systolic.py", "out", "of", "time"),  # sound, broken, endless
        *("survived", "unsettled", "unsettled", "SIGSEGV"),  # no such test; a fork that raises, is killed, crashes
    ]
    assert last == "True"


@pytest.mark.parametrize("file", ["cost/area.py", "comm/collectives/__init__.py"])
def test_a_file_has_its_modules_name(file: str) -> None:
    assert module_name(file) == {"cost/area.py": "dovetail.cost.area"}.get(file, "dovetail.comm.collectives")


def test_wilsons_interval_is_what_tables_say() -> None:
    low, high = wilson(8, 10)  # 0.490 to 0.943: Agresti & Coull, American Statistician 1998, by their equation 2
    assert low == pytest.approx(0.490, abs=5e-4)
    assert high == pytest.approx(0.943, abs=5e-4)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == pytest.approx(1.0)


def test_the_record_adds_up() -> None:
    results, rows = recorded(), recorded_rows(recorded())
    assert len(rows) == results["sample"]["mutants"] == len({one.key for one in rows})
    assert results["killed"] == len(results["dead"]) == sum(bool(one.killed_by) for one in rows)
    assert results["killed_frac"] == pytest.approx(results["killed"] / len(rows), abs=1e-4)
    assert results["population"]["mutants"] == sum(results["population"]["by_package"].values())
    assert sum(counts["tried"] for counts in results["by_kind"].values()) == len(rows)
    assert all(one["file"] and one["line"] and one["was"] != one["becomes"] for one in results["survivors"])


def test_another_seed_draws_another_sample_and_its_bar_stands_beside() -> None:
    sources = physics_sources()
    other = sample(every_mutant(), sources, 64, "another")
    assert len(other) == 64
    assert other != sample(every_mutant(), sources, 64)
    checked = {"seed": "another", "tried": 10, "killed": 7, "survivors": [], "commit": "0"}
    _, bar = recorded_bars(recorded() | {"checked": checked}, "0" * 16)
    _, absent = recorded_bars({name: one for name, one in recorded().items() if name != "checked"}, "0" * 16)
    assert absent.holds is None
    assert (bar.holds, bar.measured) == (False, "70.0% (7 of 10)")
    _, direct = recorded_bars(recorded() | {"checked": checked | {"is_direct": True}}, "0" * 16)
    assert "golden tests alone" in direct.note
    assert "alone" not in bar.note


def test_a_record_of_other_code_says_so() -> None:
    results = recorded()
    of_now, *_ = recorded_bars(results, results["sources"])
    of_other, *_ = recorded_bars(results, "0" * 16)
    assert "of today's code" in of_now.note
    assert "of older code" in of_other.note
    assert of_other.holds is None


def test_the_bar_misses_when_too_few_are_killed() -> None:
    sources = physics_sources()
    drawn = every_mutant()[:10]
    rows = [row(mutant, "a test" if place < 7 else "", sources) for place, mutant in enumerate(drawn)]
    made = systematic(rows, every_mutant(), sources) | {"date": "2026-01-01", "commit": "0"}
    bar, *_ = recorded_bars(made, digest(sources))
    assert (bar.holds, bar.measured[:5]) == (False, "70.0%")
    rows = [replace(one, killed_by="a test") for one in rows]
    assert next(recorded_bars(made | systematic(rows, every_mutant(), sources), digest(sources))).holds


def test_the_tests_that_would_notice_are_there() -> None:
    assert all((REPOSITORY / folder).is_dir() for folder in FOLDERS)


def test_a_filter_that_leaves_no_mutant_is_refused(capsys, monkeypatch) -> None:
    monkeypatch.setattr(mutations, "physics_sources", lambda: {"cost/a.py": "x = a + b\n"})
    with pytest.raises(SystemExit):
        mutations.main(["--only", "no such formula"])
    assert "no mutant's file or formula holds 'no such formula'" in capsys.readouterr().err


def test_the_first_sample_is_tried_on_all_tests(capsys) -> None:
    with pytest.raises(SystemExit):
        mutations.main(["--direct"])
    assert "--direct is for another sample" in capsys.readouterr().err
