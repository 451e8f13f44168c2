"""What of a prediction was measured, and what not; nothing where no profile was given."""

from __future__ import annotations

from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import chips_of
from dovetail.report.figures import Figure, FigureList, Figures, FigureTable, Part, TextOnly, labelled, phrase
from dovetail.report.labels import percent
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


def measured_tables(result: Outcome | Infeasible) -> Figures:
    """What was measured and what was not, the longest first."""
    share = share_of(result)
    if not share.sources:
        return ()
    num_more = len(share.not_measured) - NUM_SHOWN
    left_s = sum(one.total_s for one in share.not_measured[NUM_SHOWN:])
    notes: list[Part] = [
        phrase(
            "measured: {} of {} operators, {} of {} of compute, by {}",
            Figure("profile.num_measured", share.num_measured, str(share.num_measured)),
            Figure("profile.num_operators", share.num_operators, str(share.num_operators)),
            Figure("profile.measured_frac", share.measured_frac, percent(share.measured_frac)),
            Figure("profile.compute_s", share.compute_s, format_s(share.compute_s, 1)),
            Figure("profile.sources", list(share.sources), ", ".join(share.sources)),
        )
    ]
    if num_more > 0:
        left_frac = TextOnly("share of compute", percent(left_s / share.compute_s))
        notes.append(
            phrase("and {} more that are predicted, {}", TextOnly("operators left out", str(num_more)), left_frac)
        )
    unused = Figure("profile.num_unused", share.num_unused, str(share.num_unused))
    if share.num_unused:
        notes.append(phrase("{} operators of the profile are none of this step's", unused))
    return (
        FigureTable(rows=(unused, Figure("profile.measured_s", share.measured_s))),
        FigureList(
            key="profile.not_measured",
            title="Measured times",
            items=share.not_measured,
            shown=share.not_measured[:NUM_SHOWN],
            figures=lambda one: (
                labelled("what", one.what, "predicted, for no profile has it"),
                Figure("num_runs", one.num_runs, f"{one.num_runs:,}", "runs"),
                Figure("total_s", one.total_s, format_s(one.total_s, 1), "time"),
                TextOnly("share of compute", percent(one.total_s / share.compute_s), "of compute"),
            ),
            notes=tuple(notes),
        ),
    )
