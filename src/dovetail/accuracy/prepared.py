"""Rows of a table made ready to be compared: what was measured, and the function that predicts it on any chip."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.accuracy.compared import Compared
from dovetail.accuracy.measurements import Measurements
from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.errors import DovetailError
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.workload.graph import FloatArray, Ops
from dovetail.workload.operators import DTYPES

MEASURED_CHIP = "h200-sxm"  # what the tables that ship with the package were measured on
# How frameworks spell dtypes.
_SPELLINGS = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "tfloat32": "tf32",
    "float8": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "e4m3": "fp8", "e5m2": "fp8",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase:
    """One measured step of a model as its code runs: what it is called, its sizes, and how it ran."""

    model: str
    batch: int
    seq: int
    mode: str
    is_checkpointed: bool = False
    is_autocast: bool = False
    is_fp32: bool = False  # throughout and without TF32, attention written out; else bf16 or autocast
    has_update: bool = True  # false: the forward and the backward pass alone
    config: tuple[tuple[str, Any], ...] = ()  # of transformers; empty where a file of cases has it

    @property
    def words(self) -> str:
        how = (" recompute" if self.is_checkpointed else "") + (" autocast" if self.is_autocast else "")
        return f"{self.model} b{self.batch} s{self.seq}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """What is predicted of a step, and what was noticed while it was recorded."""

    step_s: float
    peak_bytes: float
    notes: tuple[str, ...] = ()


# Records steps and predicts them on a chip; an error in place of one that cannot be.
RecordSteps = Callable[[Sequence[StepCase], Chip], list[StepFigures | DovetailError]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What the user gave beside a table: the chip it was measured on, and the dtype; nothing where the table tells.

    `cluster` is what measured collectives are compared with. `record_steps` runs the code of models that a table
    names; none where it cannot be run.
    """

    chip: Chip | None = None
    dtype: str = ""
    record_steps: RecordSteps | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a job ran in the memory it had, and whether we say that it fits."""

    kind: str
    has_run: bool
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Measured rows of one set, and the function that predicts them all on a chip.

    `promise` names the documented bars that hold for the set, empty where none do; `skipped` says in words which rows
    of the table are not in it, and how many. Rows of one of `groups` differ by their plan alone; without any, rows are
    nothing to choose between.
    """

    name: str
    chip: Chip
    unit: str
    kinds: tuple[str, ...]
    whats: tuple[str, ...]
    measured: FloatArray
    predicted: Callable[[Chip], FloatArray]
    promise: str = ""
    is_of_chip: bool = True  # false where what is predicted has an array or a die of its own
    is_of_cluster: bool = False  # whether the user's cluster is what it is compared with
    is_of_dtype: bool = False  # whether the user may say the dtype of its rows
    skipped: tuple[tuple[str, int], ...] = ()
    groups: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    note: str = ""  # what a reader of the comparison must know of how the rows were taken

    def compared(self) -> tuple[Compared, ...]:
        pairs = zip(self.kinds, self.whats, self.measured, self.predicted(self.chip), strict=True)
        return tuple(
            Compared(set=self.name, kind=kind, what=what, measured=float(m), predicted=float(p), unit=self.unit)
            for kind, what, m, p in pairs
        )


def chip_for(given: TableContext, default: str = MEASURED_CHIP, table: str = "") -> Chip:
    """The chip that the user gave, or that the name of the table has, or the one that ships with measurements."""
    if given.chip is not None:
        return given.chip
    return chips[chip_in_name(table) or default]()


def chip_in_name(table: str) -> str:
    """The chip of the catalogue that a file's name has all words of, the longest of several; empty where none is."""
    words = re.split("[^a-z0-9]+", table.lower())
    whole = [name for name in chips.names() if set(name.split("-")) <= {*words}]
    if whole:
        return max(whole, key=lambda name: (name.count("-"), len(name)))
    begun = [name for name in chips.names() if name.split("-")[0] in words]
    return begun[0] if len(begun) == 1 else ""


def promise_for(chip: Chip, promise: str, measured_on: str = MEASURED_CHIP) -> str:
    """`promise` where `chip` is the one it was made for, as the catalogue has it."""
    return promise if chip.name == measured_on else ""


def dtypes_of(measurements: Measurements, given: TableContext) -> list[str]:
    """The dtype of every row: as given, in a column, by a word in the file's name, or bf16. Unknown ones are empty."""
    if given.dtype:
        return [given.dtype] * len(measurements)
    for column in ("dtype", "gemm_dtype"):
        if measurements.has(column):
            return [dtype_of(word) for word in measurements.words(column)]
    stem = measurements.name.lower().replace("-", "_").split("_")
    named = next((dtype for dtype in DTYPES if dtype in stem), "bf16")
    return [named] * len(measurements)


def dtype_of(word: str) -> str:
    plain = word.strip().lower()
    plain = _SPELLINGS.get(plain, plain)
    return plain if plain in DTYPES else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The rows of a table that a chip has a rate for, their dtypes, and words for those that it has not."""

    table: Measurements
    dtypes: list[str]
    skipped: tuple[tuple[str, int], ...]


def typed(measurements: Measurements, given: TableContext, chip: Chip) -> Typed:
    dtypes = dtypes_of(measurements, given)
    known = {dtype for dtype, _ in chip.tensor.rates}
    is_known = np.array([dtype in known for dtype in dtypes])
    others = sorted({dtype or "an unknown dtype" for dtype in dtypes} - known)
    words = f"rows in {', '.join(others)}, for which {chip.name} has no rate"
    return Typed(
        table=measurements.where(is_known),
        dtypes=[dtype for dtype in dtypes if dtype in known],
        skipped=((words, int((~is_known).sum())),) if others else (),
    )


def operators(
    rows: Typed,
    ops: Ops,
    chip: Chip,
    *,
    kinds: tuple[str, ...],
    whats: tuple[str, ...],
    measured_s: FloatArray,
    promise: str,
    setting: Setting = Setting.ALONE,
) -> Prepared:
    """A set in which every row is one operator alone: all of them are costed in one call."""

    def predicted(chip: Chip) -> FloatArray:
        return op_costs(ops, chip, setting).compute_s

    return Prepared(
        name=rows.table.name,
        chip=chip,
        unit="s",
        kinds=kinds,
        whats=whats,
        measured=measured_s,
        predicted=predicted,
        promise=promise,
        skipped=rows.skipped,
    )
