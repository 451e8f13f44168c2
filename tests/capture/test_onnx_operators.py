"""The table of ONNX operators: every name is one of ONNX's, roles name operators that are read, shapes follow laws."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("onnx")

from onnx import defs

from dovetail.errors import InvalidInput
from dovetail.importers import onnx_roles
from dovetail.importers.onnx_infer import FOLDED
from dovetail.importers.onnx_model import recorded_onnx
from dovetail.importers.onnx_sizes import Frozen, refitted
from dovetail.importers.onnx_steps import onnx_operators, onnx_shapes
from tests.capture import onnx_files

RUNTIMES = {"SimplifiedLayerNormalization"}  # of ONNX Runtime, which writes it without a domain
OWN = [name for name in onnx_operators.names() if "." not in name and name not in RUNTIMES]
sides = st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=4)


def test_an_operator_without_a_domain_is_one_of_onnx():
    assert [name for name in OWN if not defs.has(name)] == []


def test_operators_that_onnx_has_no_shapes_for_have_their_own():
    others = set(onnx_operators.names()) - set(OWN)
    assert others == set(onnx_shapes.names())


def test_roles_and_folding_speak_of_operators_that_are_read():
    assert onnx_roles._PRODUCTS.keys() <= set(onnx_operators.names())
    assert set(onnx_operators.names()) >= onnx_roles._SEEN_THROUGH
    assert set(onnx_operators.names()) >= FOLDED


def test_most_of_what_training_uses_is_read():
    """Of ONNX's own operators, all but those that run graphs, have no gradient, or work on other than tensors."""
    known = {schema.name for schema in defs.get_all_schemas() if not schema.deprecated and schema.domain == ""}
    assert len(known & set(OWN)) > 120


def test_without_the_package_the_way_to_get_it_is_said(tmp_path: Path, monkeypatch):
    path = onnx_files.mlp(tmp_path / "mlp.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidInput, match=r"pip install 'dovetail-codesign\[onnx\]'"):
        recorded_onnx(path)


@given(sides, st.integers(1, 6), st.integers(1, 9), st.integers(0, 4))
def test_a_frozen_batch_gives_way_wherever_it_stands_alone_or_as_a_factor(shape, written, requested, place):
    """Whatever a Reshape was exported with, at another batch its target holds as many elements as it is given."""
    place %= len(shape)
    before = [*shape[:place], shape[place] * written, *shape[place + 1 :]]
    fitted = refitted(
        tuple(before), (requested, *shape), (Frozen(written=written, requested=requested, is_batch=True),)
    )
    assert prod(fitted) == requested * prod(shape)


@given(sides, st.integers(1, 6), st.integers(1, 6))
def test_a_target_that_fits_is_left_alone(shape, written, requested):
    frozen = (Frozen(written=written, requested=requested, is_batch=True),)
    assert refitted(tuple(shape), tuple(reversed(shape)), frozen) == tuple(shape)


@given(sides, st.integers(1, 6), st.integers(1, 6))
def test_a_frozen_batch_before_a_free_entry_is_replaced(shape, written, requested):
    frozen = (Frozen(written=written, requested=requested, is_batch=True),)
    assert refitted((written, -1), (requested, *shape), frozen) == (requested, -1)
