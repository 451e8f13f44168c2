"""Intervals of predictions on the command line, and a cluster fitted to one's own runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_bad_input import check_refused
from tests.e2e.test_reference import keys

SPEC = "examples/llama3-70b-512xh100.yaml"
PLANS = ({"tp": "8"}, {"tp": "1", "zero_stage": "3"}, {"tp": "4"}, {"tp": "2", "pp": "2"}, {"tp": "1", "pp": "4"})
COLUMNS = (
    "name",
    "model",
    "cluster",
    "devices",
    "tp",
    "pp",
    "zero_stage",
    "microbatch",
    "global_batch",
    "seq",
    "step_s",
)


def predicted_s(dovetail, spec: Path) -> float:
    return float(json.loads(dovetail("simulate", spec, "--json").stdout)["step_s"])


@pytest.fixture(scope="module")
def own_runs(dovetail, tmp_path_factory):
    """Five runs that take about a tenth longer than is predicted."""
    folder = tmp_path_factory.mktemp("runs")
    rows = []
    for index, plan in enumerate(PLANS):
        spec = folder / f"{index}.yaml"
        decided = "\n".join(f"  {key}: {value}" for key, value in ({"microbatch": "1"} | plan).items())
        spec.write_text(
            "workload: {model: llama3-8b, global_batch: 128, seq: 4096}\n"
            f"cluster: {{name: dgx-h100, devices: 32}}\nplan:\n{decided}\n",
            encoding="utf-8",
        )
        step_s = predicted_s(dovetail, spec) * (1.10 + 0.01 * (index - 2))
        said = {"name": f"run {index}", "model": "llama3-8b", "cluster": "dgx-h100", "devices": "32"}
        said |= {"microbatch": "1", "global_batch": "128", "seq": "4096", "step_s": f"{step_s:.6f}"} | plan
        rows.append([said.get(column, "") for column in COLUMNS])
    file = folder / "runs.csv"
    with file.open("w", newline="", encoding="utf-8") as written:
        csv.writer(written).writerows([COLUMNS, *rows])
    return file


def test_simulate_says_how_sure_it_is_and_why(dovetail):
    shown = " ".join(dovetail("simulate", SPEC).stdout.split())
    said = json.loads(dovetail("simulate", SPEC, "--json").stdout)
    interval = said["interval"]
    assert interval["lower_s"] < said["step_s"] < interval["upper_s"]
    assert interval["confidence_frac"] == 0.9
    assert interval["sentence"].startswith("90 % interval ")
    assert f"from {interval['num_runs']} published runs of dense models on H100" in interval["sentence"]
    assert interval["sentence"].removeprefix("90 % interval ") in shown


def test_a_job_unlike_all_published_runs_is_told_so(dovetail):
    said = json.loads(dovetail("simulate", "examples/resnet-50-16xtorus.yaml", "--json").stdout)
    assert "without evidence of its class" in said["interval"]["sentence"]


def test_own_runs_make_a_cluster_file_that_simulate_takes(dovetail, own_runs, tmp_path):
    out = tmp_path / "mine.yaml"
    ran = dovetail("calibrate", "--runs", own_runs, "--out", out, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    fit = json.loads(ran.stdout)
    assert fit["num_runs"] == 5
    assert fit["compute_scale"] == pytest.approx(1 / 1.10, rel=0.03)
    assert fit["after_mape_frac"] < fit["left_out_mape_frac"] < fit["before_mape_frac"]
    assert [run["name"] for run in fit["runs"]] == [f"run {index}" for index in range(5)]
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert {key for key in keys(fit) if f"`{key}`" not in page} == set()
    asked = ("simulate", own_runs.parent / "0.yaml", "--json")
    plain, mine = (json.loads(dovetail(*asked, *more).stdout) for more in ((), ("--cluster", out)))
    assert mine["step_s"] == pytest.approx(1.08 * plain["step_s"], rel=0.03)
    shown = dovetail("show", out)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "dgx-h100-calibrated" in shown.stdout
    widths = [said["interval"]["upper_s"] / said["interval"]["lower_s"] for said in (plain, mine)]
    assert widths[1] < widths[0]
    assert "from 5 runs on this cluster (runs.csv)" in mine["interval"]["sentence"]


def test_runs_that_ship_are_foretold_better_after_a_fit_to_the_others(dovetail, tmp_path):
    ran = dovetail("calibrate", "--runs", "examples/nemo-runs-dgx-h100.csv", "--out", tmp_path / "nemo.yaml", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    fit = json.loads(ran.stdout)
    assert fit["left_out_mape_frac"] < 0.5 * fit["before_mape_frac"]
    assert not any("ran, but by our count" in note for note in fit["notes"])


def test_a_fit_in_words_shows_every_run(dovetail, own_runs, tmp_path):
    ran = dovetail("calibrate", "--runs", own_runs, "--out", tmp_path / "mine.yaml")
    assert (ran.returncode, ran.stderr) == (0, "")
    for words in ("mean error over runs.csv", "run 4", "left out", "dgx-h100-calibrated", "mine.yaml"):
        assert words in ran.stdout
    again = dovetail("calibrate", "--runs", own_runs, "--out", tmp_path / "mine.yaml")
    check_refused(again, "pass --force")


def test_a_bad_row_is_named_with_row_and_column_and_the_rest_is_fitted(dovetail, own_runs, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(own_runs.read_text(encoding="utf-8").replace("dgx-h100,32,4,", "dgx-h100,32,5,"), encoding="utf-8")
    found = dovetail("calibrate", "--runs", bad, "--out", tmp_path / "x.yaml")
    assert found.returncode == 0
    shown = "".join(found.stdout.split())
    assert "rownotpredicted:tensor_parallel=5" in shown
    assert "bad.csv:4:tp" in shown
    assert (tmp_path / "x.yaml").exists()


RUNS_ALONE = "leave out --chip, --dtype, --platform and --html"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name CSV files of measurements, or pass --runs FILE"),
        (("--runs", "absent.csv"), "absent.csv"),
        (("--runs", "x.csv", "--chip", "h200"), RUNS_ALONE),
        (("--runs", "x.csv", "--platform", "p"), RUNS_ALONE),
        (("y.csv", "--runs", "x.csv"), "name one table of runs, or several training logs"),
    ],
)
def test_wrong_words_are_refused(dovetail, arguments, words):
    check_refused(dovetail("calibrate", *arguments), words)
