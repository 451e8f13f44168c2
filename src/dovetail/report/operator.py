"""One operator on one chip, as plain data and as a table."""

from __future__ import annotations

from dovetail.accuracy.one_operator import OpAnswer
from dovetail.report.labels import gain, percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_energy_j, format_rate, format_s

LIMIT_LABELS = {
    "tensor": "tensor units",
    "vector": "vector lanes",
    "hbm": "HBM bandwidth",
    "latency": "latencies of its kernels",
    "launch": "launching it",
}


def op_record(answer: OpAnswer) -> Record:
    others = [{"model": one.model, "time_s": one.time_s, "limit": one.limit} for one in answer.others]
    return {
        "kind": answer.kind,
        "what": answer.what,
        "chip": answer.chip,
        "dtype": answer.dtype,
        "pass": answer.phase,
        "time_s": answer.time_s,
        "flop": answer.flop,
        "flop_per_s": answer.flop_per_s,
        "peak_flop_per_s": answer.peak_flop_per_s,
        "peak_frac": answer.flop_per_s / answer.peak_flop_per_s,
        "hbm_bytes": answer.hbm_bytes,
        "hbm_bytes_per_s": answer.hbm_bytes_per_s,
        "hbm_frac": answer.hbm_bytes_per_s / answer.peak_bytes_per_s,
        "energy_j": answer.energy_j,
        "mean_w": answer.mean_w,
        "sustained_s": answer.sustained_s,
        "clock_frac": answer.clock_frac,
        "limit": answer.limit,
        "others": others,
    }


def op_tables(answer: OpAnswer) -> tuple[Table, ...]:
    rate = format_rate(answer.flop_per_s, "FLOP/s")
    moved = format_rate(answer.hbm_bytes_per_s, "B/s")
    rows = (
        ("time", format_s(answer.time_s, 2), f"waits for {limit_label(answer.limit)}"),
        ("arithmetic", rate, f"{percent(answer.flop_per_s / answer.peak_flop_per_s)} of peak"),
        ("HBM", moved, f"{percent(answer.hbm_bytes_per_s / answer.peak_bytes_per_s)} of its bandwidth"),
        ("energy", format_energy_j(answer.energy_j), "dynamic, without being on"),
        ("power", f"{answer.mean_w:.0f} W", f"of {answer.tdp_w:.0f} W, idle power included"),
        ("sustained", format_s(answer.sustained_s, 2), f"again and again, clock at {percent(answer.clock_frac, 0)}"),
    )
    title = f"{answer.kind} {answer.phase} in {answer.dtype} on {answer.chip}: {answer.what}"
    tables = [Table(title=title, rows=rows, align="lrl")]
    if answer.others:
        compared = (
            ("this model", format_s(answer.time_s, 2), "", limit_label(answer.limit)),
            *(
                (one.model, format_s(one.time_s, 2), gain(one.time_s / answer.time_s - 1), limit_label(one.limit))
                for one in answer.others
            ),
        )
        headings = ("model", "time", "against ours", "waits for")
        tables.append(Table(title="beside other models", columns=headings, rows=compared, align="lrrl"))
    return tuple(tables)


def limit_label(limit: str) -> str:
    return LIMIT_LABELS.get(limit, limit)
