"""The files of the catalogue say what its Python says, to the last bit: what moving from one to the other needs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import dovetail.hardware.catalog
from dovetail.files.catalogue import Filed
from dovetail.files.chip import load_chip
from dovetail.hardware.catalog import chips

FOLDER = Path(dovetail.hardware.catalog.__file__).parent


def test_every_chip_has_its_file() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == set(chips.names())


@pytest.mark.parametrize("name", chips.names())
def test_a_file_holds_the_chip_to_the_last_bit(name: str) -> None:
    before, found = chips[name](), load_chip(str(FOLDER / f"{name}.yaml"))
    for field in dataclasses.fields(before):
        old, new = getattr(before, field.name), getattr(found, field.name)
        assert (dict(old) == dict(new)) if field.name == "sources" else (old == new), field.name
    assert Filed("chip", FOLDER / f"{name}.yaml").device_names == vars(chips[name]).get("device_names")
