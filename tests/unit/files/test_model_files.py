"""A model file says its shape and what was published of it."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.catalogue import Filed
from dovetail.files.model import load_model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

WRITTEN = """\
name: mine
family: ours
source: our paper, table 1
published_parameters: 12_345
seq: 128
num_layers: 2
hidden: 64
num_heads: 4
num_kv_heads: 4
head_width: 16
ffn_width: 128
vocab: 1000
notes: [without the second head]
"""


def test_what_was_published_is_read_beside_the_shape(write):
    model = load_model(str(write(WRITTEN, "mine.yaml")))
    assert (model.name, model.family, model.source) == ("mine", "ours", "our paper, table 1")
    assert (model.published_parameters, model.is_exact, model.sample) == (12_345, False, "tokens")
    assert model.notes == ("without the second head",)


def test_a_changed_model_is_of_its_bases_family_and_nobody_published_its_count(write):
    model = load_model(str(write("{base: llama3-8b, num_layers: 4}", "mine.yaml")))
    assert (model.family, model.published_parameters, model.is_exact) == ("llama", 0, False)


def test_an_exact_count_of_nothing_is_refused(write):
    text = WRITTEN.replace("published_parameters: 12_345", "is_exact: true")
    with pytest.raises(InvalidInput, match="is_exact is of published_parameters; give them too"):
        load_model(str(write(text, "mine.yaml")))


def test_transformers_of_the_catalogue_are_files_of_their_names_and_all_else_is_code():
    for name, entry in models.items():
        is_filed = isinstance(entry, Filed)
        assert is_filed == isinstance(entry().architecture, Transformer), name
        assert not isinstance(entry, Filed) or (entry.file.name, entry().name) == (f"{name}.yaml", name)
        assert not is_filed or load_model(str(getattr(entry, "file", ""))) == entry()
