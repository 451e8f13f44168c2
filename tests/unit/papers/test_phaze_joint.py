"""PHAZE's question to the joint search: its chips are points of the space, its network and plans those of the terms."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.papers.phaze_cases import CALIBRATED, CASES, PUBLISHED, TERMS
from dovetail.papers.phaze_joint import _point, chip_of_point, chip_plans, question_of
from dovetail.search.codesign.phaze_space import phaze_chips
from dovetail.search.codesign.question import places_of, systems_at
from dovetail.search.codesign.refining import system_at
from dovetail.units import GIBI

QUESTION = question_of(CASES[1], PUBLISHED)
KEPT = phaze_chips()
ROWS = np.linspace(0, len(KEPT) - 1, 25).astype(int).tolist()


@pytest.mark.parametrize("row", ROWS[::6])
def test_a_chip_is_a_point_of_the_space_with_the_most_hbm(row):
    design, chip = KEPT.design(row), chip_of_point(QUESTION, _point(QUESTION, KEPT, row))
    assert chip.hbm.capacity_bytes / GIBI == 80
    assert (chip.tensor.num_units, chip.tensor.num_rows, chip.tensor.num_cols) == (
        design.num_tensor,
        design.num_rows,
        design.num_cols,
    )
    assert (chip.vector.num_units, chip.vector.num_lanes) == (design.num_vector, design.num_lanes)
    assert chip.sram.capacity_bytes == KEPT.sram_bytes[row]
    assert chip.interconnect_bytes_per_s == QUESTION.base.interconnect_bytes_per_s


def test_every_such_point_keeps_the_rule_of_the_space():
    points = [_point(QUESTION, KEPT, row) for row in ROWS]
    assert QUESTION.rule(systems_at(QUESTION.space, places_of(points))).all()
    assert len({tuple(system_at(QUESTION, point).items()) for point in points}) == len(ROWS)


@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: terms.name)
def test_the_network_is_phazes_flat_one_whatever_the_chip(terms):
    question = question_of(CASES[1], terms)
    cluster = question.network(question.base, 1024)
    [flat] = cluster.topology.dimensions
    assert (flat.num_devices, flat.link.bandwidth_bytes_per_s) == (1024, 4 * GIBI)


def test_plans_are_phazes_on_its_terms_and_shard_the_optimizer_on_ours():
    assert chip_plans(PUBLISHED).zero_stage == (0,)
    assert chip_plans(PUBLISHED).overlap == (PUBLISHED.overlap,)
    assert chip_plans(CALIBRATED).zero_stage == (1,)
