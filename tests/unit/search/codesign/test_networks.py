"""Networks as a knob: parts count in what all devices take, and endpoints have the switches that they need."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.hardware.endpoints import endpoints
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.networks import network_code, network_kind, network_word, networks
from dovetail.search.codesign.question import Budget, base_budget
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems
from dovetail.search.metrics import metrics
from dovetail.step.step import training_step
from tests.codesign_questions import question

BOTH = tuple(float(network_kind(name).code) for name in ("torus", "switch"))
IN_SWITCH = float(endpoints["in-switch"].code)


def searched(asked):
    scorer = Scorer(asked)
    return joint_search(scorer, local_backend(scorer))


def test_codes_are_for_good():
    words = ("torus", "flat", "torus-ocs", "switch", "switch-optics", "switch-cpo", "nic-switch")
    assert [network_word(code) for code in range(1, 8)] == list(words)
    assert [network_code(network_word(code)) for code in range(8)] == list(range(8))
    assert len(networks.names()) >= len(words)


def test_of_two_networks_the_better_is_found_with_the_step_that_simulation_gives():
    asked = question(("tied",), {"network": BOTH})
    found = searched(asked)
    assert found is not None
    assert found.gap_frac == 0
    alone = [searched(question(("tied",), {"network": (code,)})) for code in BOTH]
    assert found.best.loss == pytest.approx(min(one.best.loss for one in alone), rel=1e-12)
    [case], [own] = asked.cases, found.best.cases
    cluster = asked.cluster(system_at(asked, found.best.point))
    step = training_step(case.workload.training_graph(), own.plan, cluster, case.workload.precision)
    assert step.step_s == pytest.approx(own.step_s, rel=1e-9)


def test_an_endpoint_that_needs_switches_is_no_part_of_a_torus():
    asked = question(("tied",), {"network": BOTH, "endpoint": (1.0, IN_SWITCH)})
    found = searched(asked)
    assert found is not None
    assert found.census.num_systems == 3  # of four combinations
    assert searched(question(("tied",), {"network": BOTH[:1], "endpoint": (IN_SWITCH,)})) is None
    with pytest.raises(InvalidInput, match=r"an in-switch endpoint needs switches.*--network switch"):
        load_codesign("gpt2-345m", CodesignOverrides(endpoint="in-switch"))
    spec = load_codesign("gpt2-345m", CodesignOverrides(endpoint="nvls", network="switch, torus"))
    assert spec.network == "torus,switch"


def test_parts_count_in_what_all_devices_take_and_not_in_a_chips_limits():
    asked = question(("tied",), {"network": BOTH})
    torus, switch = (
        built_systems(
            asked.base, {k.name: np.array([k.values[-1] if k.name == "network" else k.values[0]]) for k in knobs}
        )
        for knobs in (question(("tied",), {"network": BOTH[:1]}).space.knobs, asked.space.knobs)
    )
    assert torus.network_w == 0 < switch.network_w
    assert torus.power_w == switch.power_w
    budget = base_budget(asked.base, question(("tied",), {"network": BOTH[:1]}).space)
    within = replace(budget, area_mm2=math.inf, power_w=math.inf, total_area_mm2=math.inf)
    assert within.excess_frac(torus, np.array([8.0])) == 0 < within.excess_frac(switch, np.array([8.0]))


@pytest.mark.parametrize("budget", [Budget(), Budget(total_usd=1e6)])
def test_dollars_of_a_network_without_a_price_are_refused(budget):
    values = {"network": (float(network_kind("nic-switch").code),)}
    asked = replace(question(("tied",), values), budget=budget)
    if math.isfinite(budget.total_usd):
        with pytest.raises(NotModelled, match="has no published price"):
            searched(asked)
        return
    assert searched(asked) is not None
    with pytest.raises(NotModelled, match="has no published price"):
        searched(replace(asked, metric=metrics["$/token"]))


def test_a_pod_without_such_a_slice_leaves_a_number_of_devices_to_other_networks():
    torus, pod = networks["torus"].code, networks["tpu-v3-pod"].code
    both = question(("tied",), {"network": (torus, pod), "num_devices": (8, 16)})
    columns = {"network": np.repeat([torus, pod], 2), "num_devices": np.tile([8, 16], 2)}
    columns |= {"endpoint": np.ones(4), "num_tensor": np.ones(4)}
    assert both.is_part(columns).tolist() == [True, True, False, True]
    scorer = Scorer(both)
    assert joint_search(scorer, local_backend(scorer)) is not None
    alone = Scorer(question(("tied",), {"network": (pod,), "num_devices": (8, 16)}))
    with pytest.raises(InvalidInput, match="no slice of 8 chips; try 4 or 16"):
        joint_search(alone, local_backend(alone))
