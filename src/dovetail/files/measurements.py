"""CSV files into tables of measurements, and the measurements that ship with the package."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import dovetail
from dovetail.accuracy.measurements import Measurements
from dovetail.errors import InvalidInput
from dovetail.files.collective_logs import is_collective_log, log_measurements
from dovetail.files.text import is_file, one_line, quoted, read_text

SHIPPED = ("h200", "array-sims", "dies", "astra-sim", "published")
REFERENCE_DATA_VARIABLE = "DOVETAIL_REFERENCE_DATA"
PUBLISHED_GEMM = ("gpu_measured_gemm.csv", "tpu_measured_gemm.csv")
MORE_RUNS = ("published_training_vtrain_single.csv",)  # beside the published runs that ship
_FOLDERS = ("", "published", "third_party")  # below the named one
TRAINER_STATE = "trainer_state.json"  # the training log of the Hugging Face Trainer
MAX_COLUMNS = 1000
MAX_FILES = 1000


def load_measurements(file: Path, *, is_whole: bool = True) -> Measurements:
    """The table in a CSV file: lines that begin with '#' and blank lines are left out, cells lose their edges.

    A row with too few or too many cells is an error; where the table need not be whole it is named beside the others,
    and the file may be a log of collectives.
    """
    shown = one_line(str(file))
    text = read_text(file, "")
    if not is_whole and is_collective_log(text):
        return log_measurements(text, file)
    numbered = _Numbered(text)
    columns: tuple[str, ...] = ()
    rows, lines, uneven = [], [], []
    try:
        for cells in csv.reader(numbered, strict=True):
            row = tuple(cell.strip() for cell in cells)
            if not any(row):
                continue
            if not columns:
                columns = _header(row, shown, numbered.line)
                continue
            if len(row) != len(columns):
                message = f"a row must have as many cells as the header, {len(columns)}; got {len(row)}"
                if is_whole:
                    raise InvalidInput(message, f"{shown}:{numbered.line}")
                uneven.append((numbered.line, message))
                continue
            rows.append(row)
            lines.append(numbered.line)
    except csv.Error as error:
        raise InvalidInput(f"cannot read this as CSV: {one_line(str(error))}", f"{shown}:{numbered.line}") from None
    if not rows and uneven:
        raise InvalidInput(uneven[0][1], f"{shown}:{uneven[0][0]}")
    if not rows:
        raise InvalidInput("the file holds no row of measurements" if columns else "the file is empty", shown)
    name = one_line(file.name.removesuffix(file.suffix))
    return Measurements(
        name=name, shown=shown, columns=columns, rows=tuple(rows), lines=tuple(lines), uneven=tuple(uneven)
    )


class _Numbered:
    """The lines of a text that are not comments; `line` is the number of the last one given."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.line = 0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._text.splitlines(keepends=True), start=1):
            self.line = number
            if not line.lstrip().startswith("#"):
                yield line


def _header(row: tuple[str, ...], shown: str, line: int) -> tuple[str, ...]:
    columns = tuple(cell.lower() for cell in row)
    if len(columns) > MAX_COLUMNS:
        raise InvalidInput(f"a table has at most {MAX_COLUMNS:,} columns; got {len(columns):,}", f"{shown}:{line}")
    twice = next((name for index, name in enumerate(columns) if name and name in columns[:index]), "")
    if twice:
        raise InvalidInput(f"column {quoted(twice)} is given twice; keep one", f"{shown}:{line}")
    return columns


def _log_hint(folder: Path) -> str:
    """What to name in place of a folder that a trainer wrote; nothing where it is none."""
    return f"; name its training log, {TRAINER_STATE}" if (folder / TRAINER_STATE).is_file() else ""


def csv_files(folder: Path) -> tuple[Path, ...]:
    """The CSV files of a folder, by name."""
    try:
        names = sorted(entry for entry in os.listdir(folder) if entry.lower().endswith(".csv"))
    except OSError as error:
        reason = one_line(error.strerror or "unknown").lower()
        raise InvalidInput(f"cannot list folder {quoted(str(folder))}: {reason}") from None
    if not names:
        raise InvalidInput(f"folder {quoted(str(folder))} holds no CSV file{_log_hint(folder)}")
    if len(names) > MAX_FILES:
        raise InvalidInput(f"a folder holds at most {MAX_FILES:,} tables; {quoted(str(folder))} has {len(names):,}")
    return tuple(folder / name for name in names)


def shipped_folder(name: str) -> Path:
    return Path(dovetail.__file__).resolve().parent / "accuracy" / "data" / name


def published_files(names: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Those of `names` that this machine has, in the folder that DOVETAIL_REFERENCE_DATA names or below it."""
    named = environment.get(REFERENCE_DATA_VARIABLE, "")
    if not named:
        return ()
    folders = [Path(named) / folder for folder in _FOLDERS]
    return tuple(folder / name for name in names for folder in folders if is_file(folder / name))
