"""The files of the catalogue say what its Python says: what moving from one to the other needs."""

from __future__ import annotations

from pathlib import Path

import pytest

import dovetail.workload.models
from dovetail.files.model import model_of_file
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

FOLDER = Path(dovetail.workload.models.__file__).parent
SHAPES = [name for name, build in models.items() if isinstance(build().architecture, Transformer)]


def test_every_transformer_has_its_file() -> None:
    assert {file.name.removesuffix(".yaml") for file in FOLDER.glob("*.yaml")} == set(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_holds_the_model(name: str) -> None:
    assert model_of_file(FOLDER / f"{name}.yaml") == models[name]()
