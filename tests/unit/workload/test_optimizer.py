"""Dtypes of a run: what is not said follows from what is, and what contradicts itself is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.optimizer import Precision


@pytest.mark.parametrize(
    ("compute", "weights", "has_master_weights"),
    [
        ("bf16", "bf16", True),
        ("fp16", "fp16", True),
        ("fp8", "bf16", True),
        ("fp32", "fp32", False),
        ("tf32", "fp32", False),
    ],
)
def test_weights_are_kept_as_activations_are_and_have_a_master_copy_where_they_are_narrow(
    compute, weights, has_master_weights
):
    precision = Precision(compute=compute)
    assert (precision.weights, precision.has_master_weights) == (weights, has_master_weights)
    assert precision.gradients == precision.moments == "fp32"


def test_single_precision_adam_takes_sixteen_bytes_a_parameter():
    precision = Precision(compute="fp32")
    assert precision.weight_bytes + precision.gradient_bytes + precision.optimizer_bytes == 16


def test_what_is_said_is_kept():
    assert Precision(compute="fp32", weights="bf16").has_master_weights
    assert not Precision(weights="fp32").has_master_weights
    assert Precision(weights="fp32") == Precision(weights="fp32", has_master_weights=False)
    assert not Precision(has_master_weights=False).has_master_weights
    assert Precision() == Precision(weights="bf16", has_master_weights=True)
    assert not Precision(optimizer="sgd", has_momentum=False).has_momentum


@pytest.mark.parametrize(
    ("said", "where", "way_out"),
    [
        ({"has_momentum": False}, "has_momentum", "set optimizer: sgd"),
        ({"weights": "fp32", "has_master_weights": True}, "has_master_weights", "set master_weights: false"),
        ({"compute": "fp32", "has_master_weights": True}, "has_master_weights", "set master_weights: false"),
        ({"weights": "tf32"}, "weights", "in memory it is fp32"),
        ({"gradients": "tf32"}, "gradients", "in memory it is fp32"),
        ({"moments": "tf32"}, "moments", "in memory it is fp32"),
        ({"loss": "tf32"}, "loss", "in memory it is fp32"),
        ({"optimizer": "adan"}, "optimizer", "did you mean adam"),
        ({"compute": "bf61"}, "compute", "did you mean bf16"),
        ({"moments": "fp31"}, "moments", "did you mean fp32"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_with_a_way_out(said: dict[str, Any], where, way_out):
    with pytest.raises(InvalidInput) as caught:
        Precision(**said)
    assert caught.value.where == where
    assert way_out in caught.value.message


@pytest.mark.parametrize("label", ["compute", "weights", "gradients", "moments", "loss"])
def test_training_in_int8_is_not_modelled(label):
    said: dict[str, Any] = {label: "int8"}
    with pytest.raises(NotModelled) as caught:
        Precision(**said)
    assert caught.value.where == label
