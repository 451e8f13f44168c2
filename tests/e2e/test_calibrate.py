"""`dovetail calibrate`: a table in, a chip file out that the other commands take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

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
    check_refused(dovetail("calibrate", BMM, "--chip", "h200", "--out", out), "exists; say --force")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--chip is missing"),
        (("--chip", "h100"), "say which"),
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
