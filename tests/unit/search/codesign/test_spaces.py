"""Networks and spaces by name, and what is kept of a question."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.networks import network_named, networks
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.codesign.question import Budget, places_of, system_space, systems_at
from dovetail.search.codesign.rows import question_facts, refined_names, score_names
from dovetail.search.metrics import metrics
from tests.codesign_questions import question

CHIP = chips["tpuv4-like"]()


@pytest.mark.parametrize("name", networks.names())
def test_a_network_joins_so_many_of_a_chip_by_its_own_links(name):
    cluster = network_named(name)(CHIP, 16)
    assert cluster.num_devices == 16
    assert cluster.chip == CHIP
    fast = replace(CHIP, interconnect_bytes_per_s=2 * CHIP.interconnect_bytes_per_s)
    slow_links, fast_links = (
        [dim.link.bandwidth_bytes_per_s for dim in network_named(name)(chip, 16).topology.dimensions]
        for chip in (CHIP, fast)
    )
    assert [2 * link for link in slow_links] == fast_links


def test_a_network_that_nobody_knows_is_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match="no network is named 'torsu'; did you mean torus"):
        network_named("torsu")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_space_of_its_base_and_network(name):
    preset = PRESETS[name]
    assert preset.network in networks
    assert preset.summary
    space = system_space(chips[preset.base](), preset.num_devices, preset.values)
    rng = np.random.default_rng(1)
    points = [tuple(int(rng.integers(len(knob.values))) for knob in space.knobs) for _ in range(2000)]
    is_kept = preset.rule(systems_at(space, places_of(points)))
    assert is_kept.any()
    if name != "phaze":
        assert is_kept.all()


def facts(**changes):
    asked = question(("tied",), {"num_lanes": (64, 128)})
    return question_facts(replace(asked, **changes), metric="throughput", network="torus", rule="chip")


def test_facts_are_plain_data_the_same_for_the_same_question_and_no_other():
    own = facts()
    assert json.loads(json.dumps(own)) == own == facts()
    other = question(("dense",), {"num_lanes": (64, 128)})
    changed = [
        facts(budget=Budget(power_w=300.0)),
        facts(reference_losses=(2.0,)),
        facts(cases=other.cases),
        facts(base=replace(CHIP, clock_hz=1e9)),
        facts(space=system_space(CHIP, 8, {"num_lanes": (64, 256)})),
        facts(cases=(replace(question(("tied",), {}).cases[0], weight=2.0),)),
    ]
    assert all(one != own for one in changed)
    assert own["budget"] == {}


def test_every_figure_of_a_row_has_a_name():
    cases = question(("tied", "dense"), {}).cases
    taken = ("area_mm2", "power_w", "price_usd")
    assert score_names(cases)[:6] == ("low", *taken, "_plan of gpt2-345m", "loss of gpt2-345m")
    assert len(score_names(cases)) == 1 + 3 + 2 * 5
    assert refined_names(cases) == ("low", *taken, *(f"{name} of {case}" for case in ("gpt2-345m", "llama2-7b")
                                             for name in ("loss", "step_s", "energy_j", "low")))  # fmt: skip
    assert metrics.names()
