"""Is the memory right? Published closed forms, one H200, and published runs, each with a tolerance we defend."""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.closed_forms import closed_forms
from benchmarks.layer_rows import layer_rows
from benchmarks.memory_rows import MemoryRow, h200_rows, published_rows

# TorchTitan: one compiled 8B row takes 5 GiB less than its eager sibling, of which the saved products explain some
# (+10 %); one 405B row takes 7 GiB more than another with as many tokens a microbatch, and we see no reason (-12 %)
KNOWN_MISSES = {"M0009", "M0013"}


@cache
def published() -> tuple[MemoryRow, ...]:
    return tuple(published_rows())


@pytest.mark.parametrize("row", tuple(closed_forms()), ids=lambda row: f"{row.model}-{row.mode}-{row.what}")
def test_korthikanti_closed_forms_are_met_within_three_percent(row) -> None:
    assert abs(row.error_frac) < 0.03


@pytest.mark.parametrize("row", tuple(h200_rows()), ids=lambda row: row.row)
def test_training_steps_on_an_h200_peak_where_we_say(row: MemoryRow) -> None:
    assert abs(row.error_frac) < 0.10


def test_published_peaks_that_torch_reported_are_met() -> None:
    rows = [row for row in published() if row.is_measured and row.kind in ("allocated", "reserved")]
    assert len(rows) > 70
    missed = {row.row for row in rows if abs(row.error_frac) > 0.10}
    assert missed == KNOWN_MISSES
    assert sum(abs(row.error_frac) for row in rows) / len(rows) < 0.02


def test_what_a_device_reported_in_use_is_met_with_context_and_communicators_added() -> None:
    """BLOOM's tuning runs: constants measured on another machine, none fitted here."""
    errors = [row.error_frac for row in published() if row.is_measured and row.kind == "device"]
    assert len(errors) > 50
    assert all(abs(error) < 0.12 for error in errors)
    assert sum(abs(error) for error in errors) / len(errors) < 0.035
    assert abs(sum(errors) / len(errors)) < 0.02


def test_published_memory_meets_the_bar_of_five_percent_and_97_decisions_in_a_hundred() -> None:
    rows = published()
    errors = [abs(row.error_frac) for row in rows if row.is_measured]
    assert len(errors) >= 130
    assert sum(errors) / len(errors) <= 0.05
    decisions = [row for row in rows if row.is_decision]
    assert sum(not row.has_run for row in decisions) >= 4
    assert sum(row.is_decided_right for row in decisions) / len(decisions) >= 0.97
    # not by calling everything a fit
    assert sum(row.is_decided_right for row in decisions if not row.has_run) >= 3


def test_layers_on_an_h200_keep_what_we_say() -> None:
    errors = [abs(row.error_frac) for row in layer_rows()]
    assert len(errors) > 100
    # small tensors are rounded up to the allocator's 2 MiB blocks; large ones are exact
    assert max(errors) < 0.07
    assert sum(errors) / len(errors) < 0.01
