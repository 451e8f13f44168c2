"""`dovetail calibrate`: a table in, a chip file out that the other commands take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.collective_logs import COLUMNS, END, SIZES, START, devices, nccl_row
from tests.e2e.conftest import ROOT
from tests.e2e.test_bad_input import check_refused

BMM = ROOT / "src" / "dovetail" / "accuracy" / "data" / "h200" / "bmm.csv"


class Fitted(NamedTuple):
    """A chip file, and what the fit that wrote it said for programs."""

    file: Path
    record: dict[str, Any]


@pytest.fixture(scope="module")
def fitted(dovetail, tmp_path_factory) -> Fitted:
    out = tmp_path_factory.mktemp("fitted") / "mine.yaml"
    ran = dovetail("calibrate", BMM, "--chip", "h200", "--out", out, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return Fitted(out, json.loads(ran.stdout))


def test_a_fit_writes_a_chip_file_that_other_commands_take(dovetail, fitted):
    out, record = fitted
    assert record["num_rows"] == 71
    assert record["after_mape_frac"] <= record["before_mape_frac"]
    assert record["after_mape_frac"] <= record["cross_validated_mape_frac"] * 1.05
    assert record["written"] == str(out)
    shown = dovetail("show", out, "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["fitted_on"] == "bmm.csv: 71 rows"
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert [key for key in record if f"`{key}`" not in page] == []
    again = json.loads(dovetail("validate", BMM, "--chip", out, "--json").stdout)
    assert again["sets"][0]["scores"][0]["mape_frac"] == pytest.approx(record["after_mape_frac"], abs=1e-4)


def test_a_fit_is_told_for_people_and_repeats(dovetail, fitted, tmp_path):
    out = tmp_path / "mine.yaml"
    out.write_text("to be replaced", encoding="utf-8")
    first = dovetail("calibrate", BMM, "--chip", "h200", "--out", out, "--force")
    assert first.returncode == 0, first.stderr
    for word in ("before", "after", "cross-validated", "launch_s", "written to"):
        assert word in first.stdout
    assert str(out) in "".join(first.stdout.split())  # a long name is broken over lines
    assert max(len(line) for line in first.stdout.splitlines()) <= 80
    text, fitted_text = (file.read_text(encoding="utf-8") for file in (out, fitted.file))
    assert text == fitted_text
    check_refused(dovetail("calibrate", BMM, "--chip", "h200", "--out", out), "exists; pass --force")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--chip is missing"),
        (("--chip", "h100"), "specify which"),
        (("--chip", "h200", "--out", "x.txt"), "a chip file ends in .yaml or .yml"),
        (("--chip", "h200", "--out", "absent/x.yaml"), "there is no folder 'absent'"),
        (("--chip", "h200", "--dtype", "bf61"), "no dtype is named"),
    ],
)
def test_a_bad_word_is_refused_before_any_work(dovetail, options, words):
    check_refused(dovetail("calibrate", BMM, *options), words)


def test_too_few_rows_and_no_table_at_all_are_refused(dovetail, tmp_path):
    file = tmp_path / "few.csv"
    file.write_text("m,n,k,time_us\n64,64,64,5\n", encoding="utf-8")
    out = tmp_path / "x.yaml"
    check_refused(dovetail("calibrate", file, "--chip", "h200", "--out", out), "at least 5 rows; got 1")
    assert not out.exists()
    check_refused(dovetail("calibrate", tmp_path / "absent.csv", "--chip", "h200", "--out", out), "there is no file")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> tuple[Path, ...]:
    """An all-gather and an all-reduce over 8 GPUs that nothing was measured on, some 1.5 times as slow as H100."""
    folder, files = tmp_path_factory.mktemp("logs"), []
    for name, passes in (("all_gather", 1), ("all_reduce", 2)):
        redop = "none" if passes == 1 else "sum"
        rows = "".join(
            nccl_row(size, 16.0 * passes + passes * size / 2.2e5, redop=redop, passes=passes) for size in SIZES
        )
        file = folder / f"{name}_perf.txt"
        file.write_text(START + devices(product="Some H999 SXM") + COLUMNS + rows + END, encoding="utf-8")
        files.append(file)
    return tuple(files)


def test_logs_of_collectives_write_a_cluster_file_that_scores_better(dovetail, logs, tmp_path):
    out, page = tmp_path / "mine.yaml", tmp_path / "mine.html"
    ran = dovetail("calibrate", *logs, "--cluster", "dgx-h100", "--out", out, "--html", page, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    record = json.loads(ran.stdout)
    assert record["num_rows"] == 2 * 2 * len(SIZES)
    assert record["after_mape_frac"] < record["before_mape_frac"] / 2
    assert record["after_mape_frac"] <= record["cross_validated_mape_frac"] * 1.05
    keys = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert [key for key in record if f"`{key}`" not in keys] == []
    text = page.read_text(encoding="utf-8")
    for words in ("Time of all-gather", "Bus bandwidth of all-reduce", "8 ranks (predicted)"):
        assert words in text
    before, after = (
        json.loads(dovetail("validate", *logs, "--cluster", cluster, "--json").stdout)["sets"]
        for cluster in ("dgx-h100x8", out)
    )
    for slow, fitted in zip(before, after, strict=True):
        assert fitted["scores"][0]["mape_frac"] < slow["scores"][0]["mape_frac"]
    simulated = dovetail("network", "all-gather", "--size", "1MiB", "--topology", out, "--json")
    assert json.loads(simulated.stdout)["time_s"] > 18e-6, simulated.stderr


def test_a_calibration_of_collectives_is_told_for_people(dovetail, logs, tmp_path):
    ran = dovetail("calibrate", logs[0], "--cluster", "h100x8", "--out", tmp_path / "mine.yaml")
    assert ran.returncode == 0, ran.stderr
    for words in ("before", "cross-validated", "base_latency", "written to", "worst rows"):
        assert words in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no catalogue cluster is of platform 'Some H999 SXM'"),
        (("--chip", "h100"), "name it by --cluster"),
        (("--cluster", "dgx-h101"), "did you mean dgx-h100"),
        (("--cluster", "dgx-h100", "--out", "x.txt"), "a cluster file ends in .yaml or .yml"),
    ],
)
def test_a_bad_word_beside_logs_is_refused(dovetail, logs, options, words):
    check_refused(dovetail("calibrate", *logs, *options), words)


def test_logs_and_tables_of_operators_are_not_fitted_at_once(dovetail, logs):
    check_refused(dovetail("calibrate", logs[0], BMM, "--cluster", "dgx-h100"), "in a separate call")
    check_refused(dovetail("calibrate", BMM, "--chip", "h200", "--cluster", "dgx-h100"), "logs and tables")
