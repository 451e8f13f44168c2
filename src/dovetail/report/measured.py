"""What of a prediction was measured, in words, as a table and as plain data; nothing where no profile was given."""

from __future__ import annotations

from typing import Any

from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import chips_of
from dovetail.report.labels import percent
from dovetail.report.table import Table
from dovetail.step.measured_share import MeasuredShare, measured_share
from dovetail.units import format_s

NUM_SHOWN = 8  # operators that were not measured, the longest


def share_of(result: Outcome | Infeasible) -> MeasuredShare:
    """How much of the step's compute was measured."""
    if not any(chip.measured for chip in chips_of(result.cluster)):
        return MeasuredShare()
    return measured_share(result.workload.training_graph(), result.plan, result.cluster)


def measured_sentences(result: Outcome | Infeasible) -> tuple[str, ...]:
    """That some times are measured, which share they are, and what they are taken for."""
    share = share_of(result)
    if not share.sources:
        return ()
    message = (
        f"{share.num_measured} of {share.num_operators} operators, {percent(share.measured_frac)} of compute, take what"
        f" {' and '.join(share.sources)} measured, matched exactly by kind, pass, shape and dtype"
    )
    return (
        f"{message}; the rest is predicted",
        "measured times are taken as they are, at the clock they ran at: neither the power limit nor the slowest of"
        " many devices stretches them; energy, the clock and the host's time are predicted, and an interval rests on"
        " errors of predictions alone",
    )


def measured_tables(result: Outcome | Infeasible) -> tuple[Table, ...]:
    """What was measured and what was not, the longest first."""
    share = share_of(result)
    if not share.sources:
        return ()
    rows = tuple(
        (one.what, f"{one.num_runs:,}", format_s(one.total_s, 1), percent(one.total_s / share.compute_s))
        for one in share.not_measured[:NUM_SHOWN]
    )
    more = len(share.not_measured) - len(rows)
    left = sum(one.total_s for one in share.not_measured[NUM_SHOWN:])
    notes = [
        f"measured: {share.num_measured} of {share.num_operators} operators, {percent(share.measured_frac)} of"
        f" {format_s(share.compute_s, 1)} of compute, by {', '.join(share.sources)}"
    ]
    notes += [f"and {more} more that are predicted, {percent(left / share.compute_s)}"] if more > 0 else []
    notes += [f"{share.num_unused} operators of the profile are none of this step's"] if share.num_unused else []
    headings = ("predicted, for no profile has it", "runs", "time", "of compute")
    return (Table(title="Measured times", columns=headings, rows=rows, align="lrrr", notes=tuple(notes)),)


def measured_record(result: Outcome | Infeasible) -> dict[str, Any]:
    share = share_of(result)
    if not share.sources:
        return {}
    return {
        "profile": {
            "sources": list(share.sources),
            "num_operators": share.num_operators,
            "num_measured": share.num_measured,
            "num_unused": share.num_unused,
            "compute_s": share.compute_s,
            "measured_s": share.measured_s,
            "measured_frac": share.measured_frac,
            "not_measured": [
                {"what": one.what, "num_runs": one.num_runs, "total_s": one.total_s} for one in share.not_measured
            ],
        }
    }
