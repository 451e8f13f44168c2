"""What was measured on a GPU, as plain data and as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.report.labels import gain
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Protocol

    class Written(Protocol):
        """A table of a run, as the session that wrote it has it."""

        @property
        def name(self) -> str: ...
        @property
        def file(self) -> Path: ...
        @property
        def num_measured(self) -> int: ...
        @property
        def num_kept(self) -> int: ...
        @property
        def num_failed(self) -> int: ...
        @property
        def failed(self) -> tuple[tuple[str, int], ...]: ...
        @property
        def why_not(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure of a step, measured and predicted, in seconds or bytes."""

    name: str
    unit: str
    measured: float
    predicted: float

    @property
    def error_frac(self) -> float:
        return self.predicted / self.measured - 1.0

    @property
    def words(self) -> tuple[str, ...]:
        """As a row of a table."""
        shown = [format_s(one) if self.unit == "s" else format_bytes(one) for one in (self.measured, self.predicted)]
        return (self.name, *shown, gain(self.error_frac))


def measured_tables(gpu: str, written: Sequence[Written], commands: Sequence[str]) -> tuple[Table, ...]:
    """Rows by table, why some are missing, and commands to go on with."""
    rows = tuple(
        (one.name, f"{one.num_measured:,}", f"{one.num_kept:,}", f"{one.num_failed:,}")
        for one in written
        if not one.why_not
    )
    notes = [f"- {one.name}: {one.why_not}" for one in written if one.why_not]
    notes += [f"- {one.name}: {count:,} failed: {words}" for one in written for words, count in one.failed]
    notes += [f"- to go on: {command}" for command in commands]
    columns = ("table", "rows measured", "kept", "failed")
    return (Table(title=f"measured on {gpu}", columns=columns, rows=rows, align="lrrr", notes=tuple(notes)),)


def measured_record(gpu: str, folder: str, written: Sequence[Written], commands: Sequence[str]) -> Record:
    return {
        "gpu": gpu,
        "folder": folder,
        "tables": [
            {
                "table": one.name,
                "file": str(one.file),
                "num_measured": one.num_measured,
                "num_kept": one.num_kept,
                "num_failed": one.num_failed,
                "failed": [{"why_not": words, "num_rows": count} for words, count in one.failed],
                "why_not": one.why_not,
            }
            for one in written
        ],
        "commands": list(commands),
    }


def step_tables(
    step: str, gpu: str, chip: str, figures: Sequence[ComparedFigure], notes: Sequence[str]
) -> tuple[Table, ...]:
    return (
        Table(
            title=f"{step} on {gpu}, predicted on {chip}",
            columns=("", "measured", "predicted", ""),
            rows=tuple(one.words for one in figures),
            align="lrrr",
            notes=tuple(f"- {note}" for note in notes),
        ),
    )


def step_record(step: str, gpu: str, chip: str, figures: Sequence[ComparedFigure], notes: Sequence[str]) -> Record:
    units = {"s": "s", "B": "bytes"}
    found: Record = {"step": step, "gpu": gpu, "chip": chip}
    for one in figures:
        name = one.name.replace(" ", "_").removesuffix("_pass").removesuffix("_memory")
        found[f"{name}_measured_{units[one.unit]}"] = one.measured
        found[f"{name}_predicted_{units[one.unit]}"] = one.predicted
        found[f"{name}_error_frac"] = one.error_frac
    return found | {"notes": list(notes)}
