"""What the pages of chip, network, accuracy and search show, as values."""

from __future__ import annotations

import re

import pytest

import dovetail
from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome
from dovetail.explorer.answers import Alternative, prepared, result_of
from dovetail.explorer.demo import demo_front
from dovetail.explorer.front_view import design_charts
from dovetail.explorer.networking import Collective, network_shown
from dovetail.explorer.plan_chips import brief_chips
from dovetail.explorer.plan_page import SortedBy, plans_html
from dovetail.explorer.scripts import arguments_of, command_of, note_of, python_of
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


def alternative(number: int, step_s: float, need_bytes: float, plan: Plan) -> Alternative:
    workload = prepared(SMALL).job.workload
    return Alternative(
        plan=plan_text(plan),
        brief=f"plan {number}",
        chips=brief_chips(plan, workload),
        step_s=step_s,
        need_bytes=need_bytes,
        over_best_frac=step_s - 1,
        loses_by="compute (+1.0 %)" if number else "",
    )


def test_other_plans_are_chips_and_the_table_is_sorted_by_any_column_either_way():
    plans = (
        alternative(0, 1.0, 9e9, Plan(data_parallel=16, microbatch=4)),
        alternative(1, 1.1, 5e9, Plan(data_parallel=8, pipeline_parallel=2, microbatch=4)),
        alternative(2, 1.2, 7e9, Plan(data_parallel=4, tensor_parallel=4, zero_stage=1, microbatch=4)),
    )

    def order(by: SortedBy) -> str:
        html = plans_html(plans, plans[1].plan, by)
        return "".join(re.findall(r'<tr role="row" data-place="(\d)"', html))

    assert order(SortedBy()) == "012"
    assert order(SortedBy().by("step")) == "210"  # pressed again: the other way round
    assert order(SortedBy().by("memory")) == "120"
    assert order(SortedBy().by("plan")) == "012"
    html = plans_html(plans, plans[1].plan)
    for words in ("<b>TP</b> <span>4</span>", "<b>PP</b> <span>2</span>", "<b>DP</b> <span>16</span>"):
        assert words in html
    assert "<b>TP</b> <span>1</span>" not in html  # what says nothing is left out
    assert 'aria-sort="ascending"' in html
    assert html.count(">Show<") == 2  # the one that is shown needs no button


def test_the_command_and_the_program_of_a_page_answer_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PIPED.plan, encoding="utf-8")
    made = dovetail.simulate(**arguments_of(PIPED))
    shown = result_of(prepared(PIPED), PIPED)
    assert isinstance(made.outcome, Outcome)
    assert isinstance(shown, Outcome)
    assert made.outcome.step.step_s == shown.step.step_s
    compile(python_of(PIPED), "python", "exec")
    assert "--devices 16" in command_of(PIPED)
    assert note_of(PIPED) == ""
    assert "sliders" in note_of(PIPED.with_factor("hbm-bandwidth", 2.0))
    [design] = demo_front().points[0].states
    with pytest.raises(InvalidInput, match="no name that a command takes"):
        arguments_of(design)
