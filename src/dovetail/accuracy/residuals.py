"""How far predictions were off on published runs, a row each: what an interval rests on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dovetail.accuracy.measurements import Measurements

# Chips of one generation run the same kernels, by a word in their names; a chip of another name has none.
TPU = "tpu"  # all generations are points of one template, and fitted together: see benchmarks/tpu_steps.py
GENERATIONS = {
    "a100": "Ampere",
    "a800": "Ampere",
    "h100": "Hopper",
    "h200": "Hopper",
    "h800": "Hopper",
    "b200": "Blackwell",
    "b300": "Blackwell",
    TPU: "TPU",
}
COUNTS = {
    "devices": "num_devices",
    "tp": "tensor_parallel",
    "cp": "context_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "ep": "expert_parallel",
}
COLUMNS = ("row_id", "publisher", "chip", *COUNTS, "zero_stage", "mixture", "precision", "log_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One published run: what it was, and the logarithm of measured over predicted seconds of a step."""

    name: str
    publisher: str
    chip: str
    num_devices: int
    tensor_parallel: int
    context_parallel: int
    pipeline_parallel: int
    data_parallel: int
    expert_parallel: int
    zero_stage: int
    is_mixture: bool
    precision: str
    log_ratio: float

    @property
    def generation(self) -> str:
        return generation(self.chip)


@lru_cache(maxsize=256)
def generation(chip: str) -> str:
    """Of a chip by its name; empty where there is no published run of any."""
    return next((name for word, name in GENERATIONS.items() if word in chip.lower()), "")


def cells(row: Residual) -> tuple[str, ...]:
    """A row as a table has it, in the order of COLUMNS."""
    counts = (str(getattr(row, field)) for field in COUNTS.values())
    words = (str(row.zero_stage), str(int(row.is_mixture)), row.precision, f"{row.log_ratio:.5f}")
    return row.name, row.publisher, row.chip, *counts, *words


def residuals_of(table: Measurements) -> tuple[Residual, ...]:
    """The rows of a table that `cells` wrote."""
    counts = {field: [int(n) for n in table.counts(column)] for column, field in COUNTS.items()}
    words = {column: table.words(column) for column in ("row_id", "publisher", "chip", "precision")}
    zero_stages, mixtures = table.counts("zero_stage", 0), table.counts("mixture", 0)
    logs = table.numbers("log_ratio")
    return tuple(
        Residual(
            name=words["row_id"][row],
            publisher=words["publisher"][row],
            chip=words["chip"][row],
            precision=words["precision"][row],
            zero_stage=int(zero_stages[row]),
            is_mixture=bool(mixtures[row]),
            log_ratio=float(logs[row]),
            **{field: values[row] for field, values in counts.items()},
        )
        for row in range(len(table))
    )
