"""Every mutant of the mutation benchmark still finds the formula it breaks."""

from __future__ import annotations

import pytest

from benchmarks.mutations import MUTANTS, REPOSITORY, UNCHANGED


@pytest.mark.parametrize("mutant", [UNCHANGED, *MUTANTS], ids=lambda mutant: f"{mutant.file}:{mutant.becomes[:30]}")
def test_a_mutant_applies_exactly_once(mutant) -> None:
    text = (REPOSITORY / "src" / "dovetail" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.was) == 1
