from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.die import Die
from dovetail.hardware.implied_die import implied_die
from dovetail.units import KIBI, NANO


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_m": 0.0}, "node_m must be positive; got 0"),
        ({"num_dies": 0}, "num_dies must be at least 1; got 0"),
        ({"num_hbm_stacks": -1}, "num_hbm_stacks must not be negative; got -1"),
        ({"register_bytes": -1.0}, "register_bytes must not be negative; got -1.0"),
        ({"spare_core_frac": 1.0}, "spare_core_frac must be from 0 to below 1; got 1"),
        ({"buffered_units": "vectors"}, "buffered_units must be one of tensor, vector, none; got 'vectors'; did you"),
        (
            {"hbm_generation": "HBM9"},
            "hbm_generation must be one of HBM2, HBM2e, HBM3, HBM3e, GDDR6, GDDR6X, GDDR7; got 'HBM9'; did you mean",
        ),
    ],
)
def test_an_impossible_die_is_refused(changes, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        Die(**changes)


def test_a_gpu_implies_the_die_of_a_gpu() -> None:
    die = implied_die(chips["h100-sxm"]())
    assert die.has_dot_products
    assert (die.num_schedulers, die.register_bytes) == (4, 256 * KIBI)
    assert die.num_hbm_stacks == 6
    assert die.num_link_lanes == 36
    assert die.hbm_generation == "HBM3"


def test_a_tpu_implies_the_die_of_an_array() -> None:
    die = implied_die(chips["tpu-v5e"]())
    assert not die.has_dot_products
    assert die.buffered_units == "none"
    assert implied_die(chips["tpu-v4"]()).buffered_units == "vector"


@pytest.mark.parametrize(
    ("process", "node"),
    [("TSMC 4N", 4), ("TSMC 7 nm (N7)", 7), ("N5", 5), ("Samsung 8nm", 8), ("65 nm", 28), ("2 nm", 3), ("unknown", 7)],
)
def test_the_node_is_read_from_the_process(process, node) -> None:
    assert implied_die(replace(chips["h100-sxm"](), process=process)).node_m == pytest.approx(node * NANO)
