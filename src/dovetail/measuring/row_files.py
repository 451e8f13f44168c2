"""A table of measurements that grows row by row on disk: what stands is kept, a line that was cut short is dropped."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line, quoted

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """A CSV file with fixed columns, the first `num_keys` of which tell one row from another."""

    file: Path
    columns: tuple[str, ...]
    num_keys: int

    def opened(self) -> dict[Key, tuple[str, ...]]:
        """The rows that stand, by key; the file is there afterwards and ends in a whole line.

        A last line without an end is what a killed process leaves: it is cut off. Lines with too few or too many cells
        are left where they are and count as no rows.
        """
        try:
            text = self.file.read_bytes().decode("utf-8", errors="replace") if self.file.exists() else ""
        except OSError as error:
            raise self._refused("read", error) from None
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self._write(whole)
        lines = list(csv.reader(io.StringIO(whole)))
        if not lines:
            self._write(_line(self.columns))
            return {}
        if tuple(lines[0]) != self.columns:
            got = ", ".join(lines[0])[:200]
            rule = f"rows are added to a table with the columns {', '.join(self.columns)}"
            raise InvalidInput(f"{rule}; this one has {got}; name another folder", one_line(str(self.file)))
        return {tuple(cells[: self.num_keys]): tuple(cells) for cells in lines[1:] if len(cells) == len(self.columns)}

    def append(self, cells: Sequence[str]) -> None:
        """Adds a row, in one write that is on disk when this returns."""
        assert len(cells) == len(self.columns), f"{self.file.name}: {cells} are not {self.columns}"
        try:
            with open(self.file, "ab") as stream:
                stream.write(_line(cells).encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise self._refused("write", error) from None

    def _write(self, text: str) -> None:
        from dovetail.files.written import write_file

        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refused("write", error) from None
        write_file(self.file, text)

    def _refused(self, verb: str, error: OSError) -> InvalidInput:
        reason = one_line(str(error.strerror or error)).lower()
        return InvalidInput(f"cannot {verb} file {quoted(str(self.file))}: {reason}")


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
