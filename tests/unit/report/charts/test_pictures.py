"""Pictures: what is drawn is what was said, to scale, and as SVG that any reader takes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dovetail.accuracy.evidence import Interval
from dovetail.accuracy.residuals import Residual
from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.cost.area import silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.tdp import tdp
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.parallel.plan import Plan
from dovetail.report.charts.chart import Chart, layout
from dovetail.report.charts.chunks import chunks_over_time
from dovetail.report.charts.floorplan import area_by_part, floorplan, floorplan_of, power_by_part
from dovetail.report.charts.parallel_coordinates import Coordinate, importances, parallel_coordinates
from dovetail.report.charts.plan_scatter import PlanPoint, pareto_front, points_scatter
from dovetail.report.charts.published import MeasuredRun, Prediction, published_scatter
from dovetail.report.charts.scales import even_marks, filled_in, log_marks, written
from dovetail.report.charts.topology import collective_topology, drawn_network, step_topology
from dovetail.report.table import Table
from dovetail.step.stage_steps import handed_over_s
from dovetail.step.step import assembly_of
from dovetail.step.work import COMM_AXES
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.chart_checks import check_chart

TABLE = Table(title="t", rows=(("a", "1"),))
SVG = "{http://www.w3.org/2000/svg}"


def chart(data: list[dict[str, Any]], **said: Any) -> Chart:
    figure = {"data": data, "layout": layout(**said)}
    return Chart(name="c", title="T", alt="A.", figure=figure, table=TABLE)


def drawn(one: Chart, kind: str, **said: Any) -> list[ET.Element]:
    return [
        element for group in ET.fromstring(one.to_svg(**said)).iter(f"{SVG}g") for element in group.iter(SVG + kind)
    ]


def number_of(one: ET.Element, name: str) -> float:
    return float(one.attrib[name])


def bars(barmode: str = "stack") -> Chart:
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": lengths,
            "y": ["p", "q"],
            "hovertemplate": "%{y}: %{x:.1f}",
        }
        for name, lengths in (("one", [1.0, 2.0]), ("two", [3.0, 1.0]))
    ]
    return chart(data, barmode=barmode, xaxis={"range": [0, 4]}, yaxis={"type": "category", "autorange": "reversed"})


def test_lengths_of_stacked_bars_are_their_numbers_to_scale():
    rects = [one for one in drawn(bars(), "rect") if one.find(f"{SVG}title") is not None]
    wide = [number_of(one, "width") for one in rects]
    assert [value / wide[0] for value in wide] == pytest.approx([1, 2, 3, 1], rel=0.01)
    first_end = number_of(rects[0], "x") + wide[0]
    assert number_of(rects[2], "x") == pytest.approx(first_end, abs=0.2)
    assert rects[0].findtext(f"{SVG}title") == "p: 1.0"
    assert number_of(rects[0], "y") < number_of(rects[1], "y"), "the first label is on top"


def test_bars_side_by_side_do_not_overlap():
    rects = [one for one in drawn(bars("group"), "rect") if one.find(f"{SVG}title") is not None]
    spans = sorted((number_of(one, "y"), number_of(one, "y") + number_of(one, "height")) for one in rects)
    assert all(before[1] <= after[0] + 0.2 for before, after in pairwise(spans))


def test_dots_lie_where_logarithmic_axes_say():
    axes = {"type": "log", "range": [0, 2]}
    data = [{"type": "scatter", "mode": "markers", "x": [1.0, 10.0, 100.0], "y": [100.0, 10.0, 1.0]}]
    dots = drawn(chart(data, xaxis=axes, yaxis=axes), "circle")
    xs, ys = ([number_of(one, key) for one in dots] for key in ("cx", "cy"))
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[0] < ys[1] < ys[2], "more is up"


def test_a_picture_is_light_or_dark_and_has_no_other_place_in_it():
    light, dark = (bars().to_svg(mode) for mode in ("light", "dark"))
    assert "#ffffff" in light
    assert "#171a1f" in dark
    assert "http" not in light.replace("http://www.w3.org/2000/svg", "")
    assert 'aria-label="T. A."' in light


def test_a_picture_shows_words_of_the_user_as_words():
    evil = "&lt;script&gt;alert(1)&lt;/script&gt;"  # as `said` has them
    data = [{"type": "bar", "orientation": "h", "x": [1.0], "y": [evil], "name": evil, "hovertemplate": "%{y}"}]
    root = ET.fromstring(chart(data, showlegend=True, yaxis={"type": "category"}).to_svg())
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>alert(1)</script>" in "".join(one.itertext()) for one in root.iter(f"{SVG}text"))


def test_a_trace_that_is_not_drawn_is_our_mistake():
    with pytest.raises(AssertionError, match="bars and scatters"):
        chart([{"type": "heatmap", "x": [1], "y": [1]}]).to_svg()


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.0125, "~s", "12.5m"), (1500, "~s", "1.5k"), (1000, "~s", "1k"), (0, "~s", "0"), (0.257, ".2~s", "260m"),
        (0.5, "~%", "50%"), (0.1234, ".1%", "12.3%"), (1234.5, ",.1f", "1,234.5"), (3.0, "~g", "3"), (2.5, ".0f", "2"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_plotly_writes_them(value, form, text):
    assert written(value, form) == text


def test_marks_are_round_and_lie_on_the_axis():
    assert even_marks(0.0, 10.0, 5) == [0, 2, 4, 6, 8, 10]
    assert even_marks(0.3, 0.9, 3) == [0.4, 0.6, 0.8]
    assert log_marks(0.0, 3.0, 4) == [1, 10, 100, 1000]
    assert filled_in("%{x:.1f} of %{text}<extra>no</extra>", {"x": 2.0, "text": "a"}) == "2.0 of a"


@pytest.mark.parametrize("name", ["tpu-v4", "h100-sxm", "b200", "mi300x", "trainium2"])
def test_the_tiles_of_a_floorplan_add_up_to_the_die_part_by_part_and_lie_on_it(name):
    chip = chips[name]()
    plan = floorplan_of(chip)
    for part, mm2 in plan.area.components():
        own = sum(tile.area_mm2 for tile in plan.tiles if tile.part == part)
        assert own == pytest.approx(float(mm2), rel=1e-9, abs=1e-9), part
    dies = sum((right - left) * (top - bottom) for left, bottom, right, top in plan.dies)
    assert dies == pytest.approx(float(plan.area.total_mm2))
    for tile in plan.tiles:
        x, y = (tile.box[0] + tile.box[2]) / 2, (tile.box[1] + tile.box[3]) / 2
        assert any(left <= x <= right and bottom <= y <= top for left, bottom, right, top in plan.dies)
    assert len(plan.stacks) == chip.die.num_hbm_stacks


def test_two_chips_are_drawn_to_one_scale_and_their_parts_add_up():
    pair = (chips["h100-sxm"](), chips["tpu-v4"]())
    [both] = floorplan(*pair)
    check_chart(both)
    assert both.figure["layout"]["yaxis"]["scaleanchor"] == "x"
    [area], [power] = area_by_part(pair), power_by_part(pair)
    for one, wholes in (
        (area, [float(silicon(inventory(chip)).total_mm2) for chip in pair]),
        (power, [float(tdp(chip).total_w) for chip in pair]),
    ):
        traces = check_chart(one)
        assert [sum(trace["x"][place] for trace in traces) for place in range(2)] == pytest.approx(wholes)


def test_a_chip_whose_area_is_not_modelled_has_no_floorplan():
    assert floorplan(chips["rtx-4090"]()) == ()
    assert area_by_part([chips["rtx-4090"]()]) == ()
    assert power_by_part([chips["rtx-4090"]()]) == ()


def collective(kind: str = "ring", num_chunks: int = 4):
    link = Link(bandwidth_bytes_per_s=50e9, latency_s=5e-7)
    parts = (
        Dimension(name="x", kind=kind, num_devices=4, link=link),
        Dimension(name="y", kind="switch", num_devices=2, link=link),
    )
    network = Network(name="n", parts=parts, graph=network_graph(parts))
    return network_answer(
        CollectiveJob(collective="all-reduce", payload_bytes=2.0**20, network=network, num_chunks=num_chunks)
    )


def test_links_of_a_network_are_coloured_by_how_busy_they_were():
    answer = collective()
    [one] = collective_topology(answer)
    traces = check_chart(one)
    busiest = max(answer.loads, key=lambda load: load.most_frac)
    middles = next(trace for trace in traces if trace.get("marker", {}).get("opacity") == 0.0)
    shown = [float(text.rpartition(">")[2].partition(" ")[0]) for text in middles["text"]]
    assert max(shown) == pytest.approx(100 * busiest.most_frac, abs=0.06)
    assert sum(trace["name"] == "device" for trace in traces) == 1


@pytest.mark.parametrize("name", ["dgx-h100", "tpu-v4-pod", "mi300x-nodes", "trn2", "gb200-nvl72", "a100-pcie-nodes"])
def test_every_kind_of_network_is_drawn_with_as_many_devices_as_are_said(name):
    topology = clusters[name].build(64).topology
    part = drawn_network(topology.dimensions)
    numbers = [number for number, _, _ in part.devices]
    assert len(set(numbers)) == len(numbers) <= 64
    assert max(numbers) < 64
    places = {(round(x, 3), round(y, 3)) for _, x, y in part.devices}
    assert len(places) == len(numbers), "no device hides another"
    assert {link.dimension for link in part.links} == {d.name for d in topology.dimensions if d.num_devices > 1}


def test_a_step_colours_a_dimension_by_what_lies_on_it(outcome):
    [one] = step_topology(outcome)
    check_chart(one)
    step_s = outcome.step.step_s
    used = sum(float(comm.exposed_s + comm.hidden_s) for comm in outcome.step.comm) / step_s
    shares = [float(row[-1].partition(" ")[0]) / 100 for row in one.table.rows]
    assert 0 < max(shares) <= min(1.0, used) + 1e-3


def mixed_outcome():
    pools = (clusters["dgx-h100"].build(16), clusters["dgx-a100"].build(8))
    between = Link(bandwidth_bytes_per_s=25e9, latency_s=8e-6)
    cluster = HeterogeneousCluster(name="both", pools=pools, between=between)
    workload = Workload(model=models["llama3-8b"](), global_batch=24, seq=2048)
    return evaluate(workload, cluster, Plan(tensor_parallel=8, pipeline_parallel=3, stage_pools=(0, 0, 1)))


def test_pools_are_drawn_each_with_its_devices_and_what_joins_them():
    found = mixed_outcome()
    [one] = step_topology(found)
    traces = check_chart(one)
    [devices] = [trace for trace in traces if trace["name"] == "device"]
    assert devices["text"] == [f"device {number}" for number in [*range(16, 24), *range(16)]]
    middles = next(trace for trace in traces if trace.get("marker", {}).get("opacity") == 0.0)
    assert sum(text.startswith("between: 25.0 GB/s per device") for text in middles["text"]) == 2
    shown = [note["text"] for note in one.figure["layout"]["annotations"]]
    assert {"dgx-h100: 16 x h100-sxm", "dgx-a100: 8 x a100-80gb-sxm"} <= set(shown)
    assert [row[:2] for row in one.table.rows] == [
        ("dgx-h100", "nvlink"), ("dgx-h100", "infiniband"), ("dgx-a100", "nvlink"), ("between pools", ""),
    ]  # fmt: skip


def test_stages_hand_over_within_a_pool_and_between_two_as_often_as_a_step_has_microbatches():
    found = mixed_outcome()
    job = (found.workload.training_graph(), found.plan, found.cluster, found.workload.precision)
    within_s, other_s, between_s = handed_over_s(*job)
    assembly = assembly_of(*job)
    hop_s = assembly.transfer_s[0]
    assert (within_s, between_s) == pytest.approx((24 * 2 * hop_s[0], 24 * 2 * hop_s[2]))
    assert other_s == 0.0  # one stage alone has none to hand over to
    equal = evaluate(found.workload, clusters["dgx-h100"].build(16), Plan(tensor_parallel=8, pipeline_parallel=2))
    single = (found.workload.training_graph(), equal.plan, equal.cluster, found.workload.precision)
    pp_s, none_s = handed_over_s(*single)
    assert isinstance(equal, Outcome)
    pp = equal.step.comm[COMM_AXES.index("pp")]
    assert (pp_s, none_s) == pytest.approx((pp.exposed_s + pp.hidden_s, 0.0))


def test_phases_of_one_chunk_follow_each_other_and_no_lane_runs_two_at_once():
    [one] = chunks_over_time(collective(num_chunks=4))
    traces = check_chart(one)
    rows = [
        (y, base, base + lasts, int(text))
        for trace in traces
        for y, base, lasts, text in zip(trace["y"], trace["base"], trace["x"], trace["text"], strict=True)
    ]
    assert {row[3] for row in rows} == {0, 1, 2, 3}
    for lane in {row[0] for row in rows}:
        own = sorted((begin, end) for y, begin, end, _ in rows if y == lane)
        assert all(before[1] <= after[0] * (1 + 1e-9) for before, after in pairwise(own))
    assert chunks_over_time(replace(collective(), timeline=())) == ()


def points() -> list[PlanPoint]:
    pairs = [(1.0, 70), (1.2, 60), (1.1, 75), (2.0, 20), (1.5, 60), (3.0, 20), (2.5, 10)]
    return [
        PlanPoint(name=f"plan {step_s}", step_s=step_s, need_bytes=held * GIBI, is_best=step_s == 1.0)
        for step_s, held in pairs
    ]


def test_no_plan_beats_one_of_the_front_on_both_and_every_other_is_beaten():
    front = pareto_front(points())
    assert [(one.step_s, one.need_bytes / GIBI) for one in front] == [(1.0, 70), (1.2, 60), (2.0, 20), (2.5, 10)]
    for one in points():
        better = [o for o in points() if o.step_s <= one.step_s and o.need_bytes <= one.need_bytes and o != one]
        assert bool(better) == (one not in front)


def test_plans_are_drawn_with_their_front_the_limit_and_the_interval_of_the_best():
    known = [replace(one, lower_s=0.9 * one.step_s, upper_s=1.2 * one.step_s) for one in points()]
    [one] = points_scatter(known, 80 * GIBI)
    traces = {trace["name"]: trace for trace in check_chart(one)}
    assert traces["Pareto front"]["x"] == [1.0, 1.2, 2.0, 2.5]
    assert traces["fastest"]["error_x"]["array"] == pytest.approx([0.2])
    [line] = one.figure["layout"]["shapes"]
    assert line["y0"] == 80
    assert points_scatter(known[:1], 80 * GIBI) == ()
    assert "error_x" not in traces["other plans"]


def study(num: int = 60) -> tuple[list[Coordinate], Coordinate]:
    cores = tuple(float(4 * 2 ** (row % 3)) for row in range(num))
    flow = tuple("a" if row % 2 else "b" for row in range(num))
    fixed = tuple(8.0 for _ in range(num))
    score = tuple(c * (1.0 + 0.01 * (f == "a")) for c, f in zip(cores, flow, strict=True))
    knobs = [Coordinate(name=n, values=v) for n, v in (("cores", cores), ("flow", flow), ("fixed", fixed))]
    return knobs, Coordinate(name="rate", values=score, unit="tokens/s")


def test_lines_of_a_study_cross_what_is_open_and_the_best_have_a_colour():
    knobs, score = study()
    [one] = parallel_coordinates(knobs, score, is_more_better=True)
    traces = check_chart(one)
    assert {trace["name"] for trace in traces} <= {"slowest fifth", "4th fifth", "3rd fifth", "2nd fifth", "best fifth"}
    assert sum(trace["x"].count(None) for trace in traces) == 60
    assert max(x for trace in traces for x in trace["x"] if x is not None) == 2, "two open knobs and the score"
    assert "cores 16, flow a" in one.alt
    assert parallel_coordinates(knobs[2:], score, is_more_better=True) == ()


def test_importances_are_shares_of_variance_that_sum_to_one_where_knobs_add_up():
    knobs, score = study()
    additive = replace(
        score, values=tuple(float(c) + (f == "a") for c, f in zip(knobs[0].values, knobs[1].values, strict=True))
    )
    [one] = importances(knobs, additive)
    [trace] = check_chart(one)
    assert trace["y"][0] == "cores"
    assert sum(trace["x"]) == pytest.approx(1.0)


def run(name: str, measured_s: float, predicted_s: float) -> MeasuredRun:
    residual = Residual(
        name=name, publisher=f"lab {len(name)}", chip="h100-sxm", num_devices=8, tensor_parallel=1, context_parallel=1,
        pipeline_parallel=1, data_parallel=8, expert_parallel=1, zero_stage=0, is_mixture=False, precision="bf16",
        log_ratio=math.log(measured_s / predicted_s),
    )  # fmt: skip
    return MeasuredRun(residual=residual, measured_s=measured_s)


def test_published_runs_lie_where_both_seconds_say_and_the_question_has_its_place():
    runs = [run("a", 1.0, 1.1), run("bb", 2.0, 1.8), run("cc", 5.0, 5.0)]
    asked = Prediction(
        name="mine", step_s=3.0, interval=Interval(lower_s=2.0, upper_s=4.5, num_rows=3, evidence="three")
    )
    one = published_scatter(runs, asked)
    traces = {trace["name"]: trace for trace in check_chart(one)}
    assert traces["lab 1"]["x"] == [1.0]
    assert traces["lab 1"]["y"] == pytest.approx([1.1])
    here = traces["this question: mine"]
    assert here["x"] == [3.0]
    assert here["error_x"]["array"] == [1.5]
    assert here["error_x"]["arrayminus"] == [1.0]
    assert "off by 6.7 % on the mean" in one.alt
