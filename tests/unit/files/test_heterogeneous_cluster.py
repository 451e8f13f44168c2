from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.files.job import load_open_spec, load_spec
from dovetail.files.plan_text import plan_text
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.units import GIGA, MICRO

PARTS = """
parts:
  - {name: dgx-h100, devices: 16}
  - {name: dgx-a100, devices: 8}
between: {bandwidth: 25 GB/s, latency: 8 us}
"""
SPEC = """
workload: {model: llama3-8b, global_batch: 32}
cluster:
  parts: [{name: dgx-h100, devices: 16}, {name: dgx-a100, devices: 8}]
  between: {bandwidth: 25 GB/s, latency: 8 us}
plan: {tensor_parallel: 8, pipeline_parallel: 3%s}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "some.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_parts_and_what_joins_them_are_read(tmp_path: Path):
    found = load_any_cluster(str(written(tmp_path, PARTS)))
    assert isinstance(found, HeterogeneousCluster)
    assert [(part.name, part.num_devices) for part in found.pools] == [("dgx-h100", 16), ("dgx-a100", 8)]
    assert found.between == Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=8 * MICRO)
    assert found.name == "dgx-h100 + dgx-a100"


def test_a_cluster_of_equal_devices_is_read_as_before():
    assert isinstance(load_any_cluster("dgx-h100"), Cluster)


def test_parts_of_one_family_are_told_apart_by_name(tmp_path: Path):
    text = PARTS.replace("{name: dgx-a100, devices: 8}", "{base: dgx-h100, devices: 8, name: older}")
    found = load_any_cluster(str(written(tmp_path, text)))
    assert isinstance(found, HeterogeneousCluster)
    assert [part.name for part in found.pools] == ["dgx-h100", "older"]


def test_stages_are_put_on_parts_and_a_plan_file_says_where(tmp_path: Path):
    job = load_spec(written(tmp_path, SPEC % ""))
    assert job.plan.stage_pools == (0, 0, 1)
    assert "stage_pools: [0, 0, 1]\n" in plan_text(job.plan)
    turned = load_spec(written(tmp_path, SPEC % ", stage_pools: [1, 0, 0]"))
    assert turned.plan.stage_pools == (1, 0, 0)
    as_before = load_spec(written(tmp_path, SPEC % ", stage_parts: [1, 0, 0]"))  # the key of 0.1
    assert as_before.plan.stage_pools == (1, 0, 0)
    assert load_open_spec(written(tmp_path, SPEC % "")).given == (job.plan,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PARTS.replace("between: {bandwidth: 25 GB/s, latency: 8 us}", ""), "between"),
        (PARTS.replace("25 GB/s", "25"), "a quantity needs its unit"),
        (PARTS.replace("dgx-a100, devices: 8", "dgx-h100, devices: 8"), "must differ"),
        (
            PARTS.replace("  - {name: dgx-a100, devices: 8}\n", ""),
            "at least 2; got 1",
        ),
        (PARTS.replace("devices: 8", "devices: 12"), "devices"),
        (PARTS + "chip: h100-sxm\n", "chip"),
        (PARTS + "reliability: {}\n", "reliability is not modelled"),
        (PARTS + "host: {}\n", "host is not modelled"),
    ],
)
def test_what_is_no_cluster_of_parts_is_refused_in_one_line(tmp_path: Path, text: str, told: str):
    with pytest.raises(DovetailError, match=told) as error:
        load_any_cluster(str(written(tmp_path, text)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (", stage_pools: [0, 1]", "has 2 values and must have .*: 3"),
        (", stage_pools: [0, 1, 1]", "1 stages of 8 devices"),
        (", schedule: dualpipe", "dualpipe"),
    ],
)
def test_stages_that_do_not_fill_the_parts_are_refused_where_they_are_written(tmp_path: Path, change: str, told: str):
    with pytest.raises(DovetailError, match=told) as error:
        load_spec(written(tmp_path, SPEC % change))
    assert "plan" in error.value.where


UNEVEN = """
workload: {model: llama3-8b, global_batch: %d}
cluster:
  parts: [{name: dgx-h100, devices: 64}, {name: dgx-a100, devices: 40}]
  between: {bandwidth: 25 GB/s, latency: 8 us}
plan: {tensor_parallel: 8, %s}
"""


def test_degrees_that_are_offered_fill_every_part_and_divide_the_batch(tmp_path: Path):
    with pytest.raises(DovetailError, match=r"must divide the cluster's 104 devices; try pipeline_parallel=13 \("):
        load_spec(written(tmp_path, UNEVEN % (128, "pipeline_parallel: 4")))
    offered = load_spec(written(tmp_path, UNEVEN % (128, "pipeline_parallel: 13")))
    assert offered.plan.data_parallel == 1
    with pytest.raises(DovetailError, match=r"must equal the cluster's 104 devices \("):
        load_spec(written(tmp_path, UNEVEN % (128, "pipeline_parallel: 1, data_parallel: 8")))


CALIBRATED = "{base: %s, name: mine, calibration: {compute: 0.9, links: 0.8}}"


def test_a_cluster_of_catalogue_origin_is_resized_with_its_pace(tmp_path: Path):
    (tmp_path / "base.yaml").write_text("{name: dgx-h100, devices: 64}", encoding="utf-8")
    for base in ("dgx-h100", "base.yaml"):
        file = str(written(tmp_path, CALIBRATED % base))
        own, larger = load_any_cluster(file), load_any_cluster(file, 512)
        assert isinstance(own, Cluster)
        assert isinstance(larger, Cluster)
        assert larger.num_devices == 512
        assert larger.name == "mine"
        assert larger.chip.calibration == own.chip.calibration


def test_a_topology_that_is_written_out_is_not_resized(tmp_path: Path):
    dimension = "{name: d, kind: ring, devices: 4, bandwidth: 1 GB/s, latency: 1 us}"
    file = written(tmp_path, f"{{chip: h100-sxm, topology: [{dimension}]}}")
    with pytest.raises(DovetailError, match="my-cluster is written out and has 4 devices by its topology; change that"):
        load_any_cluster(str(file), 8)


def test_what_a_host_lacks_is_told_of_the_host(tmp_path: Path):
    with pytest.raises(DovetailError, match=r"^link is missing \(") as error:
        load_any_cluster(str(written(tmp_path, "{name: dgx-h100, host: {devices: 8}}")))
    assert "catalogue" not in str(error.value)
