"""Rows of published memory: what they ran, what keeps one from being said, and which decisions are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.memory_jobs import NotExpressed, memory_job
from dovetail.accuracy.memory_rows import MemoryRow, memory_row
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.sets.published_memory import NEEDED, READ
from dovetail.errors import InvalidInput
from dovetail.units import GIBI

BLANK = dict.fromkeys((*NEEDED, *READ), "")
STATED = BLANK | {
    "mem_id": "X1", "source": "somebody's logs", "quality": "log", "model": "GPT", "layers": "24", "hidden": "2048",
    "heads": "16", "seq": "2048", "micro_batch": "2", "gpu": "A100-80GB", "tp": "2", "pp": "2", "dp": "2",
    "recompute": "full", "zero_stage": "1", "precision": "bf16", "metric": "torch max allocated", "value_gib": "9.5",
}  # fmt: skip
BLOOM = STATED | {"source": "BigScience chronicles", "model": "GPT 195B", "layers": "", "heads": "", "hidden": "14400"}
BLOOM |= {"tp": "8", "pp": "11", "dp": "4", "precision": "fp16", "metric": "max GPU memory (as printed)"}


def test_a_publisher_nobody_knows_is_taken_at_its_word() -> None:
    job = memory_job(STATED)
    assert (job.model.num_layers, job.model.hidden, job.plan.zero_stage) == (24, 2048, 1)
    assert (job.plan.num_devices, job.plan.microbatch, job.plan.recompute) == (8, 2, ("full",))
    assert job.plan.framework == "plain"
    assert memory_job(STATED | {"source": "logs of Megatron-LM"}).plan.framework == "megatron-lm"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"hidden": ""}, "the model's shape is not given"),
        ({"tp": ""}, "tp is not given"),
        ({"micro_batch": "two"}, "not a count"),
        ({"recompute": "every third"}, "not modelled"),
        ({"micro_batch": "²"}, "not a count"),
        ({"tp": "9" * 5000}, "not a count"),
        ({"source": "torchtitan", "model": "LLAMA9_1B"}, "no model of the catalogue"),
        ({"source": "BigScience", "model": "BLOOM", "layers": ""}, "the model's shape is not given"),
        ({"source": "BigScience", "model": "GPT 195B", "layers": "", "pp": "300"}, "the model's shape is not given"),
        ({"source": "Zero Bubble", "pp": "900000000"}, "pieces of a pipeline"),
    ],
)
def test_what_keeps_a_row_from_being_said_is_told(changes: dict[str, str], told: str) -> None:
    with pytest.raises(NotExpressed, match=told):
        memory_job(STATED | changes)
    assert told in memory_row(STATED | changes).why_not


@pytest.mark.parametrize("cell", ["value_gib", "nan", "inf", "-1", "1e300", "5e-324"])
@pytest.mark.parametrize("column", ["value_gib", "value_raw"])
def test_a_figure_that_is_no_number_is_refused_by_its_row(column: str, cell: str) -> None:
    row = STATED | {"value_gib": "", column: cell}
    with pytest.raises(InvalidInput, match=f"{column} must be 0, or a number .*; got '{cell}' .'X1'."):
        memory_row(row)


@pytest.mark.parametrize(("cell", "stage"), [("", 0), ("3 (FSDP2)", 3), ("x", 0), ("7", 0)])
def test_a_zero_stage_is_the_digit_that_its_cell_begins_with(cell: str, stage: int) -> None:
    assert memory_job(BLOOM | {"zero_stage": cell}).plan.zero_stage == stage
    assert memory_job(STATED | {"zero_stage": cell}).plan.zero_stage == stage


def test_a_plan_that_cannot_be_is_a_reason_and_no_crash() -> None:
    assert "must divide" in memory_row(STATED | {"tp": "3"}).why_not


def test_layers_that_are_not_given_follow_from_the_stated_size() -> None:
    assert memory_job(BLOOM).model.num_layers == 77


def test_figures_count_what_their_metric_says() -> None:
    allocated, reserved, device = (
        memory_row(STATED | {"metric": metric}).predicted_bytes
        for metric in ("torch max allocated", "torch max reserved", "max GPU memory (as printed)")
    )
    assert allocated < reserved < device


def test_a_decision_is_right_when_what_ran_fits_and_what_did_not_does_not() -> None:
    ran = memory_row(STATED)
    assert ran.is_decision
    assert ran.is_decided_right
    failed = memory_row(STATED | {"metric": "OOM on 80GB", "value_gib": ""})
    assert not failed.is_measured
    assert not failed.is_decided_right
    assert replace(failed, need_bytes=81 * GIBI).is_decided_right
    assert not replace(ran, need_bytes=81 * GIBI).is_decided_right
    assert not memory_row(STATED | {"gpu": "made at home"}).is_decision
    assert isinstance(ran, MemoryRow)


def test_a_table_of_memory_is_compared_row_by_row_and_the_rest_counted() -> None:
    rows = (
        STATED,
        STATED | {"quality": "analytic_not_measured"},
        STATED | {"layers": ""},
        STATED | {"metric": "OOM on 80GB", "value_gib": ""},
    )
    columns = tuple(BLANK)
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    table = Measurements(name="mine", shown="mine.csv", columns=columns, rows=cells, lines=(2, 3, 4, 5))
    assert format_of(table) == "published-memory"
    [one] = prepared(table, TableContext())
    assert list(one.measured) == [9.5]
    assert one.predicted(one.chip)[0] * GIBI == pytest.approx(memory_row(STATED).predicted_bytes)
    assert sum(count for _, count in one.skipped) == 3
