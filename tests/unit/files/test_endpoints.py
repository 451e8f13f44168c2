"""Endpoints in specs: of a chip, of a cluster, of its parts; and what a step says of them."""

from __future__ import annotations

import pytest

from dovetail.cost.engines import engines_of
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.evaluate import Outcome, evaluate
from dovetail.files.chip import load_chip
from dovetail.files.cluster import load_cluster
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import chips_of
from dovetail.parallel.plan import Overlap, Plan
from dovetail.report.assumptions import assumptions
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


def written(tmp_path, text):
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_chip_says_its_endpoint_and_draws_what_that_takes(tmp_path):
    plain, ended = chips["h100-sxm"](), load_chip(written(tmp_path, "{base: h100-sxm, endpoint: ace}"))
    assert ended.endpoint == "ace"
    assert ended.energy.idle_w == pytest.approx(plain.energy.idle_w + engines_of(ended)[1]) != plain.energy.idle_w
    assert ended.sources == plain.sources
    assert load_chip(written(tmp_path, "{base: h100-sxm, endpoint: sm}")).energy == plain.energy
    with pytest.raises(DovetailError, match=r"no endpoint is named 'ase'; did you mean ace\?.*spec.yaml:1"):
        load_chip(written(tmp_path, "{base: h100-sxm, endpoint: ase}"))


@pytest.mark.parametrize(
    "text",
    [
        "{name: dgx-h100, devices: 16, endpoint: dma}",
        "{base: dgx-h100, devices: 16, endpoint: dma}",
        "{base: {name: dgx-h100, devices: 16}, calibration: {compute: 1.1}, endpoint: dma}",
        "{chip: h100-sxm, endpoint: dma,"
        " topology: [{name: a, kind: switch, devices: 16, bandwidth: 1 TB/s, latency: 1 us}]}",
    ],
)
def test_every_way_to_write_a_cluster_may_say_its_endpoint(tmp_path, text):
    cluster = load_cluster(written(tmp_path, text))
    assert (cluster.num_devices, cluster.chip.endpoint) == (16, "dma")


def test_a_cluster_without_such_an_endpoint_is_refused_where_it_is_written(tmp_path):
    with pytest.raises(InvalidInput, match="no endpoint is named 'dmas'; did you mean dma") as caught:
        load_cluster(written(tmp_path, "name: dgx-h100\nendpoint: dmas\n"))
    assert "spec.yaml:2" in str(caught.value)


def test_parts_have_endpoints_of_their_own(tmp_path):
    parts = "parts: [{base: dgx-h100, devices: 8, endpoint: ace, name: new}, {name: dgx-a100, devices: 8}]"
    between = "between: {bandwidth: 20 GB/s, latency: 8 us}"
    cluster = load_any_cluster(written(tmp_path, f"{parts}\n{between}\n"))
    assert [chip.endpoint for chip in chips_of(cluster)] == ["ace", "sm"]
    with pytest.raises(NotModelled, match="endpoint is not modelled"):
        load_any_cluster(written(tmp_path, f"{parts}\n{between}\nendpoint: ace\n"))


def test_a_step_is_shorter_by_what_its_endpoint_leaves_to_compute_and_says_so(tmp_path):
    workload = Workload(model=models["llama3-8b"](), global_batch=32, seq=2048)
    plan = Plan(tensor_parallel=4, data_parallel=4, zero_stage=1, overlap=Overlap(tensor=True))
    plain = evaluate(workload, clusters["dgx-h100"].build(16), plan, has_changes=False)
    ended = evaluate(
        workload,
        load_cluster(written(tmp_path, "{name: dgx-h100, devices: 16, endpoint: ace}")),
        plan,
        has_changes=False,
    )
    assert isinstance(plain, Outcome)
    assert isinstance(ended, Outcome)
    assert ended.step.step_s < plain.step.step_s
    hidden_s = [sum(one.hidden_s for one in outcome.step.comm) for outcome in (plain, ended)]
    assert hidden_s[0] < hidden_s[1]
    assert any("by ace: an engine with its own SRAM" in told for told in assumptions(ended))
    assert not any("endpoint" in told or "by sm" in told for told in assumptions(plain))
