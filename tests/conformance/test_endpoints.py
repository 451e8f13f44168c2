"""Every endpoint of the registry answers in `network`, in a training step, in a plan and in a joint search alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dovetail as dv
from dovetail.comm.one_collective import COLLECTIVES
from dovetail.cost.engines import engines_of, with_endpoint
from dovetail.hardware.catalog import chips
from dovetail.hardware.endpoints import ALL_REDUCE_VOLUME, endpoint_named, endpoints
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.step.step import training_step
from tests.codesign_questions import question

NAMES = endpoints.names()
WORDS = sorted((alias, name) for name, kind in endpoints.items() for alias in (name, *kind.aliases))
SWITCHES = "switch:8@100GB/s,1us"
GRANTED = "300 GB/s"
STEP = {"workload": {"model": "gpt2-345m", "global_batch": 64, "seq": 512}}
CLUSTER = {
    "name": "hypothetical",
    "chip": "h100-sxm",
    "topology": [{"name": "x", "kind": "switch", "devices": 8, "bandwidth": "100 GB/s", "latency": "1 us"}],
}
PLAN = {"tensor_parallel": 2, "data_parallel": 4, "zero_stage": 0}


def granted(name: str) -> str:
    """Memory bandwidth, of an endpoint that takes some."""
    return GRANTED if endpoints[name].adding.reads.bytes_of(ALL_REDUCE_VOLUME) else ""


def simulated(endpoint: str, **plan: object):
    return dv.simulate({**STEP, "cluster": {**CLUSTER, "endpoint": endpoint}, "plan": {**PLAN, **plan}})


@pytest.mark.parametrize(("word", "name"), WORDS)
def test_names_and_aliases_are_read_wherever_an_endpoint_is_named(word, name):
    assert endpoint_named(word).name == name
    assert replace(chips["h100-sxm"](), endpoint=word).endpoint == name
    found = dv.network("all-reduce", size="64 MiB", topology=SWITCHES, endpoint=word, memory=granted(name))
    assert found.outcome[0].job.endpoint.name == name
    assert simulated(word).step_s == simulated(name).step_s


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_in_network_an_endpoint_is_never_faster_than_links_and_closed_form_and_events_agree(name, collective):
    assert collective in COLLECTIVES
    found = dv.network(collective, size="64 MiB", topology=SWITCHES, endpoint=name, memory=granted(name)).outcome[0]
    assert found.time_s >= found.bound_s * (1 - 1e-12)
    assert found.time_s >= found.endpoint_s
    [closed_s] = found.closed_form_s
    assert max(closed_s, found.endpoint_s) == pytest.approx(found.time_s, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_in_a_step_compute_loses_what_the_endpoint_says_and_ideal_is_never_beaten_at_equal_algorithms(name):
    kind, found, ideal = endpoints[name], simulated(name), simulated("ideal")
    assert found.fits
    if kind.adding_slowdown_frac > 0 and not kind.is_in_switch:
        assert found.step_s > ideal.step_s
    if kind.is_in_switch:  # an all-reduce passes each port once, not twice
        assert found.step_s < simulated("sm").step_s


@pytest.mark.parametrize("name", NAMES)
def test_planners_count_with_it(name):
    spec = {**STEP, "cluster": {**CLUSTER, "endpoint": name}}
    best = dv.plan(spec, top=1, limit=50, fix=("tensor_parallel=2", "pipeline_parallel=1")).best
    again = dv.simulate(spec, plan=best.plan)
    assert again.step_s == pytest.approx(best.step_s, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_joint_search_finds_the_step_that_simulation_gives(name):
    asked = question(("tied",), {"endpoint": (endpoints[name].code,)}, network="flat")
    scorer = Scorer(asked)
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    system, [case] = system_at(asked, found.best.point), found.best.cases
    cluster = asked.cluster(system)
    assert cluster.chip.endpoint == name
    graph, precision = asked.cases[0].workload.training_graph(), asked.cases[0].workload.precision
    assert training_step(graph, case.plan, cluster, precision).step_s == pytest.approx(case.step_s, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_what_its_engines_take_is_on_the_chip(name):
    chip, engine = chips["tpu-v4"](), endpoints[name].engine
    changed = with_endpoint(chip, name)
    area_mm2, power_w = engines_of(changed)
    assert (area_mm2 > 0, power_w > 0) == (engine.area_mm2 > 0, engine.power_w > 0)
    assert changed.energy.idle_w - chip.energy.idle_w == pytest.approx(power_w)


@pytest.mark.parametrize("name", networks.names())
def test_every_network_of_a_joint_search_joins_devices_and_adds_no_less_than_nothing(name):
    kind = networks[name]
    cluster = kind.build(chips["tpu-v4"](), 16)  # the fewest beyond a host that every pod has a slice of
    assert cluster.num_devices == 16
    assert kind.has_switches == all(one.can_reduce for one in cluster.topology.dimensions)
    for num_devices in (8, 64, 65, 2048, 2049):
        assert kind.parts.device_w(300e9, num_devices, 200.0) >= 0
        usd = kind.parts.device_usd(300e9, num_devices, 900.0)
        assert not usd < 0
