"""A file that describes a search of chips is told from a spec, wherever a spec is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

import dovetail.api as dv
from dovetail.errors import InvalidInput
from dovetail.files.kinds import SEARCH, kind_of_file

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SEARCHES = ("codesign-two-models", "mine-a-mosaic", "mine-vision-and-language")


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_given_as_a_spec_is_pointed_to_its_commands(name):
    file = str(EXAMPLES / f"{name}.yaml")
    assert kind_of_file(file) == SEARCH
    with pytest.raises(InvalidInput, match="dovetail codesign, pareto or mine"):
        dv.simulate(file)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_other_example_is_not_taken_for_a_search(file):
    assert (kind_of_file(str(file)) == SEARCH) == (file.stem in SEARCHES)
