"""A profile beside predictions: operator by operator, their sums, and what of the time is compared with nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.accuracy.profiled import Profiled, ProfiledOp, kind_label, shape_label
from dovetail.hardware.measured import MeasuredExchange
from dovetail.report.labels import percent
from dovetail.report.page import Section
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

NUM_SHOWN = 24  # operators, the longest
NUM_LEFT_OUT = 8
NUM_EXCHANGES = 8
AT_FULL_CLOCK = "predicted at full clock, behind other operators; launches are no part of either"
OF_HOST = "the trace has no kernel of a device: its times are the host's, and so may be longer than any device's"


def profiled_record(found: Profiled) -> Record:
    profile, errors = found.profile, _errors(found)
    return {
        "source": profile.source,
        "device": profile.device,
        "chip": found.chip,
        "num_steps": profile.num_steps,
        "num_ranks": profile.num_ranks,
        "is_host_time": profile.is_host_time,
        "busy_s": profile.busy_s,
        "measured_s": found.measured_s,
        "predicted_s": found.predicted_s,
        "compared_frac": found.compared_frac,
        "median_frac": errors[0],
        "p90_frac": errors[1],
        "rows": [_row_record(row) for row in found.rows],
        "left_out": [
            {"name": one.name, "why": one.why, "num_runs": one.num_runs, "total_s": one.total_s}
            for one in found.left_out
        ],
        "collectives": [_exchange_record(one) for one in found.collectives],
    }


def _row_record(row: ProfiledOp) -> Record:
    op = row.op
    return {
        "kind": op.kind,
        "phase": op.phase,
        "dtype": op.dtype,
        "extents": list(op.extents),
        "work_frac": op.work_frac,
        "name": op.name,
        "stream": op.stream,
        "num_runs": op.num_runs,
        "measured_s": op.time_s,
        "predicted_s": row.predicted_s,
        "error_frac": row.error_frac,
    }


def _exchange_record(one: MeasuredExchange) -> Record:
    return {
        "name": one.name,
        "message_bytes": one.message_bytes,
        "num_ranks": one.num_ranks,
        "num_runs": one.num_runs,
        "time_s": one.time_s,
    }


def profiled_sentence(found: Profiled) -> str:
    """How far off we are on a profile, in a line."""
    if not found.rows:
        return f"{found.profile.source}: no operator of it is compared"
    median, p90 = _errors(found)
    total = found.predicted_s / found.measured_s - 1
    return (
        f"{found.profile.source} on {found.chip}: {percent(found.compared_frac)} of its time compared, predicted"
        f" {100 * total:+.1f} % in sum; median error {percent(median)}, p90 {percent(p90)}"
    )


def profiled_tables(found: Profiled) -> tuple[Table, ...]:
    tables = [_operators_table(found)]
    if found.left_out:
        tables.append(_left_out_table(found))
    if found.collectives:
        tables.append(_exchanges_table(found))
    return tuple(tables)


def profiled_sections(found: Profiled) -> tuple[Section, ...]:
    """The same for a page."""
    return tuple(Section(title=table.title, tables=(table,)) for table in profiled_tables(found))


def _operators_table(found: Profiled) -> Table:
    shown = found.rows[:NUM_SHOWN]
    rows = [_operator_row(row) for row in shown]
    if rest := found.rows[NUM_SHOWN:]:
        rows.append(_sum_row(f"{len(rest)} more", rest))
    rows.append(_sum_row("all that is compared", found.rows))
    notes = [profiled_sentence(found), OF_HOST if found.profile.is_host_time else AT_FULL_CLOCK]
    return Table(
        title=f"{found.profile.source}: operators, a run of each",
        columns=("operator", "shape", "runs", "measured", "predicted", "error"),
        rows=tuple(rows),
        align="llrrrr",
        notes=tuple(notes),
    )


def _operator_row(row: ProfiledOp) -> tuple[str, ...]:
    op = row.op
    times = (format_s(op.time_s, 1), format_s(row.predicted_s, 1), _signed(row.error_frac))
    return (kind_label(op), f"{shape_label(op)} {op.dtype}", f"{op.num_runs:,}", *times)


def _sum_row(what: str, rows: Sequence[ProfiledOp]) -> tuple[str, ...]:
    """Sums over all runs."""
    measured_s = sum(row.op.total_s for row in rows)
    predicted_s = sum(row.op.num_runs * row.predicted_s for row in rows)
    error = _signed(predicted_s / measured_s - 1) if measured_s else ""
    num_runs = sum(row.op.num_runs for row in rows)
    return (what, "all runs together", f"{num_runs:,}", format_s(measured_s, 1), format_s(predicted_s, 1), error)


def _left_out_table(found: Profiled) -> Table:
    busy_s, shown = found.profile.busy_s, found.left_out[:NUM_LEFT_OUT]
    rest = found.left_out[NUM_LEFT_OUT:]
    rest_s = sum(one.total_s for one in rest)
    return Table(
        title=f"{found.profile.source}: left out",
        columns=("what the trace calls it", "times", "time", "of all", "why"),
        rows=tuple(
            (one.name, f"{one.num_runs:,}", format_s(one.total_s, 1), percent(one.total_s / busy_s), one.why)
            for one in shown
            if busy_s
        ),
        align="lrrrl",
        notes=(f"and {len(rest)} more, {percent(rest_s / busy_s)} of all",) if rest and busy_s else (),
    )


def _exchanges_table(found: Profiled) -> Table:
    """Collectives are shown and not compared: a trace does not state what its links are."""
    rest = found.collectives[NUM_EXCHANGES:]
    more = (f"and {len(rest)} more, {format_s(sum(one.total_s for one in rest), 1)}",) if rest else ()
    return Table(
        title=f"{found.profile.source}: collectives, not compared",
        columns=("collective", "message", "ranks", "runs", "a run"),
        rows=tuple(
            (
                one.name,
                format_bytes(one.message_bytes),
                f"{one.num_ranks:,}" if one.num_ranks else "",
                f"{one.num_runs:,}",
                format_s(one.time_s, 1),
            )
            for one in found.collectives[:NUM_EXCHANGES]
        ),
        align="lrrrr",
        notes=(*more, "a trace does not state what its links are; dovetail network predicts collectives on yours"),
    )


def _errors(found: Profiled) -> tuple[float, float]:
    """Median and 90th percentile of the errors' sizes, a row each; 0 where there is none."""
    sizes = np.abs([row.error_frac for row in found.rows]) if found.rows else np.zeros(1)
    return float(np.quantile(sizes, 0.5)), float(np.quantile(sizes, 0.9))


def _signed(error_frac: float) -> str:
    return f"{100 * error_frac:+.1f} %"
