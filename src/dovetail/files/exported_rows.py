"""Rows of a table into a file that other programs read, one kind of file each; whole or not at all."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.files.written import placed

NUM_AT_ONCE = 65_536  # rows of a Parquet row group: some megabytes in memory
Columns = dict[str, type]  # int, float or str, by name
Rows = Iterable[list[Any]]  # a cell for each column, None where there is nothing
NO_PYARROW = "a .parquet file needs pyarrow: pip install 'dovetail-codesign[export]', or name a .csv file"


def write_rows(file: Path, columns: Columns, rows: Rows) -> int:
    """How many rows were written; the end of the file's name says how."""
    write = _writer(file)
    with placed(file) as half:
        return write(half, columns, rows)


def check_kind(file: Path) -> None:
    """Raises where `write_rows` could not write a file of this name, before any work is done."""
    _writer(file)


def _writer(file: Path) -> Callable[[Path, Columns, Rows], int]:
    ending = file.suffix.lower()
    if ending not in KINDS:
        raise InvalidInput(f"a file to export to ends in {' or '.join(KINDS)}; got {str(file)!r}", "--out")
    if ending == ".parquet":
        _pyarrow()
    return KINDS[ending]


def _write_csv(file: Path, columns: Columns, rows: Rows) -> int:
    """A line of names, then one line a row; numbers keep every digit, and what there is nothing of is left empty."""
    num_rows = 0
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for num_rows, row in enumerate(rows, 1):  # noqa: B007  # the last is how many there were
            writer.writerow(row)
    return num_rows


def _write_parquet(file: Path, columns: Columns, rows: Rows) -> int:
    arrow = _pyarrow()
    kinds = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    num_rows = 0
    with importlib.import_module("pyarrow.parquet").ParquetWriter(file, schema, compression="zstd") as writer:
        for some in _chunks(rows):
            cells = [
                arrow.array(column, type=kind)
                for column, kind in zip(zip(*some, strict=True), schema.types, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(cells, schema=schema))
            num_rows += len(some)
    return num_rows


def _chunks(rows: Rows) -> Iterator[list[list[Any]]]:
    left = iter(rows)
    while some := list(islice(left, NUM_AT_ONCE)):
        yield some


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise InvalidInput(NO_PYARROW, "--out") from None


KINDS: dict[str, Callable[[Path, Columns, Rows], int]] = {".csv": _write_csv, ".parquet": _write_parquet}
