"""Every mutant of the mutation benchmark still finds the formula it breaks."""

from __future__ import annotations

import pytest

from benchmarks.mutations import MUTANTS, QUICK, REPOSITORY, UNCHANGED, main


@pytest.mark.parametrize("mutant", [UNCHANGED, *MUTANTS], ids=lambda mutant: f"{mutant.file}:{mutant.becomes[:30]}")
def test_a_mutant_applies_exactly_once(mutant) -> None:
    text = (REPOSITORY / "src" / "dovetail" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.was) == 1


def test_no_mutant_stands_twice_and_each_changes_something() -> None:
    assert len({(mutant.file, mutant.was) for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.was != mutant.becomes for mutant in MUTANTS)


def test_the_tests_that_would_notice_are_there() -> None:
    assert all((REPOSITORY / tests).exists() for tests in QUICK)


def test_a_filter_that_leaves_no_mutant_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "no such formula"])
    assert "no mutant's file or formula holds 'no such formula'" in capsys.readouterr().err
