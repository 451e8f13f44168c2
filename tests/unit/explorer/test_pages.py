"""What the pages of chip, network, accuracy and search show, as values."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.explorer.answers import prepared
from dovetail.explorer.demo import demo_front
from dovetail.explorer.front_view import design_charts
from dovetail.explorer.networking import Collective, network_shown
from dovetail.explorer.silicon import chip_shown
from dovetail.explorer.state import State, Upload
from dovetail.explorer.trust import trusted
from dovetail.explorer.views import hardware_charts, plan_choices, sections
from dovetail.files.plan_text import plan_text
from dovetail.parallel.plan import Plan

SMALL = State(
    model="gpt2-345m", cluster="dgx-h100", devices=16, batch=64, plan=plan_text(Plan(data_parallel=16, microbatch=4))
)
PIPED = State(
    model="gpt2-345m",
    cluster="dgx-h100",
    devices=16,
    batch=64,
    plan=plan_text(Plan(data_parallel=8, pipeline_parallel=2, microbatch=4)),
)


def test_a_chip_is_drawn_beside_another_and_its_gain_split_where_it_was_changed():
    plain = chip_shown(SMALL, "tpu-v4")
    assert [chart.name for chart in plain.drawn] == ["floorplan"]
    assert len(plain.parts) == 2
    assert len(plain.roofline) == 1
    assert (plain.gains, bool(plain.why_none)) == ((), True)
    assert plain.facts.columns == ("", "h100-sxm", "tpu-v4")
    changed = chip_shown(SMALL.with_factor("hbm-bandwidth", 2.0).with_factor("peak", 0.5), "tpu-v4")
    [gains] = changed.gains
    assert [row[0] for row in gains.table.rows] == ["h100-sxm as it is", "HBM bandwidth ×2", "peak FLOP/s, bf16 ×0.5"]


def test_a_design_of_a_search_is_drawn_with_its_gain_by_part():
    [state] = demo_front().points[0].states
    found = chip_shown(state, "tpu-v4")
    assert found.drawn
    [gains] = found.gains
    assert gains.table.rows[0][0] == "tpuv4-like" or gains.table.rows[0][0].startswith("tpu")


def test_a_network_is_drawn_with_its_load_and_a_collective_chunk_by_chunk():
    found = network_shown(SMALL, Collective(size="16 MiB", over="nvlink"))
    assert [name for name, _ in found.overs] == ["all", "nvlink", "infiniband"]
    assert found.over == "nvlink"
    assert {chart.name for chart in found.step} >= {"network-use"}
    assert len(found.collective) >= 2
    assert "all-reduce of 16.0 MiB on 8 devices over nvlink takes" in found.said
    for wrong in (Collective(over="no-such"), Collective(size="lots"), Collective(size="1MiB..4MiB")):
        with pytest.raises(InvalidInput):
            network_shown(SMALL, wrong)


def test_the_networks_of_several_pools_are_drawn_and_a_collective_stays_within_one():
    pools, between = (
        "[{name: dgx-h100, devices: 16}, {name: dgx-a100, devices: 8}]",
        "{bandwidth: 25 GB/s, latency: 8 us}",
    )
    text = f"pools: {pools}\nbetween: {between}"
    mixed = State(
        model="llama3-8b",
        cluster_file=Upload(name="mixed.yaml", text=text),
        batch=24,
        seq=2048,
        plan="{tp: 8, pp: 3, sp: true}",
    )
    found = network_shown(mixed, Collective(size="16 MiB"))
    assert (found.overs, found.over) == ((("dgx-h100", "dgx-h100"), ("dgx-a100", "dgx-a100")), "dgx-h100")
    assert {chart.name for chart in found.step} == {"topology", "network-use"}
    assert "on 16 devices" in found.said
    assert "within one pool, here dgx-h100" in found.note
    assert "on 8 devices" in network_shown(mixed, Collective(size="16 MiB", over="dgx-a100")).said
    with pytest.raises(InvalidInput, match="did you mean dgx-"):
        network_shown(mixed, Collective(over="dgx-b100"))


def test_how_sure_an_answer_is_names_the_runs_it_rests_on():
    found = trusted(SMALL)
    assert "90 % interval" in found.said
    assert "published runs" in found.said
    assert "none is near" in found.nearest.notes[0]
    assert found.charts[1].table.rows
    assert len(found.charts) == 2


@pytest.mark.parametrize("tab", ["timeline", "time", "report"])
def test_every_tab_has_something_to_show(tab):
    found = sections(PIPED, tab)
    assert found
    assert all(section.charts or section.tables or section.sentences or section.code for section in found)
    assert hardware_charts(PIPED)


def test_what_can_be_chosen_of_a_plan_holds_what_it_has():
    own = prepared(PIPED)
    found = plan_choices(own.plan, own.job.workload, own.job.cluster.num_devices)
    assert all(chosen in values for values, chosen in found.values())
    assert found["tp"][0] == ["1", "2", "4", "8", "16"]
    assert found["ep"] == (["1"], "1")
    assert "zb-h1" in found["schedule"][0]


def test_designs_of_a_front_are_drawn_across_their_knobs():
    assert [chart.name for chart in design_charts(demo_front())] == ["coordinates", "importances"]
