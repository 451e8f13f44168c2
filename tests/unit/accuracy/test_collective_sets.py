"""Tables of measured collectives: known by their columns, scored by platform, bad rows named and the others kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.comm.library.platforms import ADA_PCIE, HOPPER, MI300X
from dovetail.comm.library.timing import library_times, operation_of
from dovetail.errors import InvalidInput, NotModelled
from dovetail.units import GIGA, MICRO

ONE_NODE = "system,nccl_version,collective,num_gpus,size_bytes,time_us\n"
NODES = "source,library,cluster,nodes,gpus_per_node,nic_gb_per_s_per_node,collective,size_bytes,time_us\n"
HOPPER_US = float(library_times(HOPPER, "all-gather", 8, 65536.0).seconds[0] / MICRO)
GOOD = f"h100_sxm,2.29.2,all_gather,8,65536,{HOPPER_US}\n"


def table(folder: Path, text: str) -> Path:
    file = folder / "own.csv"
    file.write_text(text, encoding="utf-8")
    return file


def skipped(found: dv.Validation) -> list[str]:
    return [part["what"] for one in found.record["sets"] for part in one["skipped"]]


def test_rows_are_scored_by_platform_and_by_link(tmp_path):
    pcie_us = float(library_times(ADA_PCIE, "all-reduce", 4, 2.0**20).seconds[0] / MICRO)
    text = f"{ONE_NODE}{GOOD}gb200_sxm,2.28,all_to_all,4,4096,1e3\nl40s,2.27,all_reduce,4,1048576,{pcie_us / 2}\n"
    record = dv.validate(table(tmp_path, text)).record
    assert [one["set"] for one in record["sets"]] == ["own, NVLink", "own, PCIe"]
    kinds = {score["kind"]: score["mape_frac"] for score in record["sets"][0]["scores"]}
    assert kinds["h100_sxm"] == pytest.approx(0, abs=1e-9)
    assert kinds["gb200_sxm"] > 0.9
    assert record["sets"][1]["scores"][0]["mape_frac"] == pytest.approx(1.0)


def test_rows_over_nodes_take_the_nics_that_the_table_says(tmp_path):
    seconds = library_times(MI300X, "all-reduce", 16, 2.0**30, num_nodes=2, nic_bytes_per_s=200 * GIGA).seconds[0]
    text = f"{NODES}a log,RCCL,mi300x-nodesx16,2,8,200,all_reduce,{2**30},{seconds / MICRO}\n"
    scores = dv.validate(table(tmp_path, text)).record["sets"][0]["scores"]
    assert scores[0]["mape_frac"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("h100_sxm,2.29.2,all_gather,8,65536,OOM", "time_us must be a number"),
        ("h100_sxm,2.29.2,all_gather,8,65536,0", "time_us must be above 0"),
        ("h100_sxm,2.29.2,all_gather,8,-1,10", "size_bytes must be above 0"),
        ("h100_sxm,2.29.2,all_gather,8,1e20,10", "size_bytes is at most"),
        ("h100_sxm,2.29.2,all_gather,1,65536,10", "num_gpus must be from 2"),
        ("h100_sxm,2.29.2,all_gather,2.5,65536,10", "num_gpus must be a whole number"),
        ("h100_sxm,2.29.2,broadcast,8,65536,10", "'broadcast' is not modelled"),
        ("mi250x,2.29.2,all_gather,8,65536,10", "'mi250x'"),
        ("l4,2.29.2,all_gather,8,65536,10", "dovetail calibrate FILE"),
        ("h100_pcie,2.29.2,all_gather,8,65536,10", "nothing was measured on it"),
        ("mi300x,2.29.2,all_gather,8,65536,10", "inside one node of MI300X"),
        ("h100_sxm,2.29.2,all_gather", "as many cells as the header, 6; got 3"),
        ("h100_sxm,2.29.2,all_gather,8,65536,10,20", "as many cells as the header, 6; got 7"),
        (",2.29.2,all_gather,8,65536,10", "blank cell"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_scored(tmp_path, row, words):
    found = dv.validate(table(tmp_path, f"{ONE_NODE}{GOOD}{row}\n{GOOD}"))
    assert sum(one["scores"][0]["num_rows"] for one in found.record["sets"]) == 2
    assert len(skipped(found)) == 1
    assert words in skipped(found)[0]


def test_a_table_of_bad_rows_alone_is_refused_with_the_first_reason(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        dv.validate(table(tmp_path, f"{ONE_NODE}mi250x,2,all_gather,8,65536,10\nmi250x,2,all_gather,8,65536,11\n"))
    assert "'mi250x'" in caught.value.message
    with pytest.raises(InvalidInput) as caught:
        dv.validate(table(tmp_path, f"{ONE_NODE}h100,2\n"))
    assert "got 2" in caught.value.message


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("all_gather", "all-gather"),
        ("AllReduce", "all-reduce"),
        ("alltoall_perf", "all-to-all"),
        ("reduce_scatter_perf", "reduce-scatter"),
    ],
)
def test_a_collective_is_known_however_it_is_written(name, operation):
    assert operation_of(name) == operation
    with pytest.raises(NotModelled):
        operation_of(name + "v")


def test_a_platform_without_constants_is_a_set_of_its_own_by_the_nearest_generation(tmp_path):
    scaled_s = library_times(HOPPER, "all-gather", 2, 2.0**30).seconds[0] / MICRO
    rows = f"h100,2,all_gather,2,{2**30},{scaled_s}\nh800,2,all_gather,2,{2**30},{scaled_s * 18 / 8}\n"
    found = dv.validate(table(tmp_path, ONE_NODE + rows)).record["sets"]
    assert [one["scores"][0]["num_rows"] for one in found] == [1, 1]
    known, outside = sorted(found, key=lambda one: "evidence" in one["set"])
    assert known["scores"][0]["mape_frac"] == pytest.approx(0, abs=1e-9)
    assert "outside the evidence, as H100 with 0.44 of its links" in outside["set"]
    assert outside["scores"][0]["bars"] == []
    assert outside["scores"][0]["mape_frac"] < 0.02  # 1 GiB is bandwidth alone


def test_a_cluster_is_compared_with_the_rows_of_its_platform_alone(tmp_path):
    file = tmp_path / "mine.yaml"
    lines = "base: dgx-h100\ndevices: 8\ncollectives: {library: nccl-h100, platform: H100-SXM, base_latency: 20 us}\n"
    file.write_text(lines, encoding="utf-8")
    slow = replace(HOPPER, base_s=20 * MICRO)
    seconds = library_times(slow, "all-gather", 8, 65536.0).seconds[0] / MICRO
    rows = f"h100_sxm,2,all_gather,8,65536,{seconds}\na100_sxm,2,all_gather,8,65536,1\n"
    found = dv.validate(table(tmp_path, ONE_NODE + rows), cluster=str(file))
    [one] = found.record["sets"]
    assert one["scores"][0]["num_rows"] == 1
    assert one["scores"][0]["mape_frac"] == pytest.approx(0, abs=1e-9)
    assert skipped(found) == ["rows of other platforms than H100-SXM"]
    other = tmp_path / "other.csv"
    other.write_text("m,n,k,time_us\n64,64,64,5\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="tables and logs of collectives"):
        dv.validate(str(other), cluster=str(file))
    with pytest.raises(InvalidInput, match="names no collective library"):
        dv.validate(table(tmp_path, ONE_NODE + rows), cluster="tpu-v4-podx64")
