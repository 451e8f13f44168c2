"""The README of the measured example names every bar that its rows miss, by how much, as `validate` has it today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dovetail as dv

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "measured-h200"
AS_PRINTED = {"MAPE": "MAPE", "worst": "max"}
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (MAPE|max) ([\d.]+) \| ([\d.]+) \|", re.MULTILINE)


@pytest.mark.slow  # records four steps of models where no capture of them is kept
def test_the_readme_of_the_measured_example_names_the_bars_that_its_rows_miss() -> None:
    found = dv.validate(str(FOLDER), chip="h200-sxm").record
    missed = [
        (one["set"], f"{score['num_rows']}", AS_PRINTED[bar["statistic"]], f"{100 * bar['limit_frac']:g}",
         f"{100 * bar['measured_frac']:.1f}")
        for one in found["sets"] for score in one["scores"] for bar in score["bars"] if not bar["holds"]
    ]  # fmt: skip
    assert found["holds"] is False
    assert ROW.findall((FOLDER / "README.md").read_text(encoding="utf-8")) == missed
