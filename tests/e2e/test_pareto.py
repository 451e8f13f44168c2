"""`dovetail pareto`: every system that no other beats, for people and for programs."""

from __future__ import annotations

import csv
import json

import pytest

from tests.e2e.test_bad_input import check_refused

SMALL = """
workload: {model: gpt2-345m, global_batch: 16, seq: 128}
devices: 4
chip: {num_tensor: [1, 4, 16], num_rows: 128, num_cols: [64, 256], num_vector: [2, 8], num_lanes: 128,
       sram_mib: 32, hbm_stacks: [2, 4], stack_gib: 8}
"""


@pytest.fixture
def small(tmp_path):
    spec = tmp_path / "small.yaml"
    spec.write_text(SMALL, encoding="utf-8")
    return spec


def test_a_front_is_told_written_drawn_and_kept(dovetail, small, tmp_path):
    table, picture, store = tmp_path / "front.csv", tmp_path / "front.svg", tmp_path / "front.db"
    told = dovetail("pareto", small, "--csv", table, "--plot", picture, "--store", store, "--top", "3")
    found = dovetail("pareto", small, "--json", "--store", store)
    assert (told.returncode, found.returncode, told.stderr, found.stderr) == (0, 0, "", "")
    said = json.loads(found.stdout)
    assert said["axes"] == ["throughput", "area", "power", "cost"]
    counts = ("num_scored", "num_pruned", "num_over_limit", "num_out_of_memory")
    assert sum(said[key] for key in counts) == said["num_systems"] == 3 * 2 * 2 * 2 * 3
    assert len(said["space"]["vmem_bytes_per_clock"]) == 3  # of the preset, as the spec does not say
    assert said["num_front"] == len(said["front"]) > 3
    figures = [one["figure"] for one in said["front"]]
    assert figures == sorted(figures, reverse=True)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["figure"]) for row in rows] == figures
    assert picture.read_text(encoding="utf-8").count("<polyline") == 3
    assert max(len(line) for line in told.stdout.partition("written:")[0].splitlines()) <= 80
    for word in (f"3 of {said['num_front']} systems", "exact for 72 systems", "written:"):
        assert word in told.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--axes", "throughput"), "two axes or more"),
        (("--axes", "throughput,weight"), "no axis is named 'weight'"),
        (("--csv", "no/such/folder/front.csv"), "no folder"),
        (("--workers", "2", "--dask", "tcp://127.0.0.1:1"), "two engines"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(dovetail, small, options, words):
    check_refused(dovetail("pareto", small, *options), words)


def test_limits_that_no_system_keeps_are_an_answer(dovetail, small):
    ran = dovetail("pareto", small, "--area", "10 mm2")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "No system" in ran.stdout


def test_a_best_system_says_what_binds_and_what_more_buys(dovetail, small):
    found = dovetail("codesign", small, "--area", "400 mm2", "--json")
    assert (found.returncode, found.stderr) == (0, "")
    said = json.loads(found.stdout)["sensitivity"]
    [area] = said["limits"]
    assert (area["name"], area["limit"]) == ("area_mm2", 400.0)
    assert area["is_binding"] == (area["without"] is not None)
    assert {one["name"] for one in said["resources"]} >= {"links", "HBM bandwidth", "HBM capacity"}
    without = dovetail("codesign", small, "--no-sensitivity", "--json")
    assert json.loads(without.stdout)["sensitivity"] is None
