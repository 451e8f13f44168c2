"""A GPU measured by `dovetail measure`: the record of a run on one H200, and the chip calibrated from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dovetail
from benchmarks.bar import REPOSITORY, Bar, reference_data
from dovetail.files.measurements import csv_files, load_measurements, shipped_folder

ISSUE = 25
RECORD = REPOSITORY / "examples" / "measured-h200"
CHIP_FILE, BASE = "h200-measured.yaml", "h200-sxm"
LIMIT_S = 360.0
ROUNDING_FRAC = 0.0005  # style: a tolerance; half of the last digit that errors are shown with


def bars() -> Iterator[Bar]:
    yield time_bar()
    yield shipped_bar()
    yield own_bar()


def time_bar() -> Bar:
    """How long the recorded run took, as its machine's file says."""
    said = json.loads((RECORD / "machine.json").read_text(encoding="utf-8"))
    num_rows = sum(len(load_measurements(file)) for file in csv_files(RECORD))
    return Bar(
        name="dovetail measure on an H200",
        issue=ISSUE,
        bar=f"<= {LIMIT_S:.0f} s",
        measured=f"{said['took_s']:.0f} s for {num_rows} rows",
        holds=said["took_s"] <= LIMIT_S,
        note=f"recorded {said['date']}, {said['gpu']}, driver {said['driver']}, torch {said['torch']}",
    )


def shipped_bar() -> Bar:
    """Rows of the tables that ship, or of the reference data, with the calibrated chip and with the catalogue's."""
    folder = reference_data("h200") or Path(shipped_folder("h200"))
    before, num_rows = pooled_frac(folder, BASE)
    after, _ = pooled_frac(folder, str(RECORD / CHIP_FILE))
    return Bar(
        name="shipped H200 rows with the chip calibrated from it",
        issue=ISSUE,
        bar=f"MAPE <= {before:.2%}, the shipped chip's",
        measured=f"{after:.2%} of {num_rows:,} rows",
        holds=after <= before + ROUNDING_FRAC,
    )


def own_bar() -> Bar:
    """The measured operators themselves, with the chip of the catalogue; for the record, without a limit of its own."""
    files = [str(file) for file in csv_files(RECORD) if file.stem != "steps"]
    found = scores(dovetail.validate(*files, chip=BASE).record)
    num_rows = sum(score["num_rows"] for score in found)
    error_frac = sum(score["num_rows"] * score["mape_frac"] for score in found) / num_rows
    return Bar(
        name="measured operators with the shipped chip",
        issue=ISSUE,
        bar="MAPE <= 10%",
        measured=f"{error_frac:.2%} of {num_rows:,} rows",
        holds=error_frac <= 0.1,
    )


def pooled_frac(folder: Path, chip: str) -> tuple[float, int]:
    """Mean error over all rows of a folder, and how many there are."""
    found = scores(dovetail.validate(str(folder), chip=chip).record)
    num_rows = sum(score["num_rows"] for score in found)
    return sum(score["num_rows"] * score["mape_frac"] for score in found) / num_rows, num_rows


def scores(record: Any) -> list[Any]:
    """Of each set, that of all of its rows."""
    return [([one for one in each["scores"] if not one["kind"]] or each["scores"])[0] for each in record["sets"]]
