"""A training step as its code runs, as plain data and tables: time, memory, and what they go to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from dovetail.report.labels import percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.step.eager import EagerStep
from dovetail.step.eager_advice import Advice
from dovetail.units import format_bytes, format_s
from dovetail.workload.dispatched import DispatchedOp

MOST_ROWS = 12  # of each table; --json has them all
MODULE_DEPTH = 5  # parts of a module's path that are told apart
OUTERMOST = "(outermost)"


def eager_record(
    found: EagerStep,
    *,
    batch: int,
    seq: int,
    fused_step_s: float,
    memory_bytes: float,
    advice: tuple[Advice, ...] = (),
) -> Record:
    """`fused_step_s` is 0 where the model was not recognised; `memory_bytes` are the chip's."""
    return {
        "chip": found.chip,
        "batch": batch,
        "seq": seq,
        "step_s": found.step_s,
        **{f"{phase}_s": phase_s for phase, phase_s in found.phase_s},
        "fused_step_s": fused_step_s,
        "host_bound_frac": found.host_bound_frac,
        "clock_frac": found.clock_frac,
        "peak_bytes": found.peak_bytes,
        "reserved_bytes": found.reserved_bytes,
        "state_bytes": found.step.state_bytes,
        "memory_bytes": memory_bytes,
        "num_operators": len(found.step.ops),
        "num_kernels": int(found.launches.sum()),
        "operators": _grouped(found, _operator),
        "modules": _grouped(found, _module),
        "advice": [
            {"change": one.change, "gain_s": one.gain_s, "gain_frac": one.gain_frac, "module": one.module}
            for one in advice
        ],
        "notes": list(found.step.notes),
    }


def _grouped(found: EagerStep, name_of: Callable[[DispatchedOp], str]) -> list[Record]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for op, busy_s, count in zip(found.step.ops, found.operator_s.tolist(), found.launches.tolist(), strict=True):
        one = sums[name_of(op)]
        one[0], one[1], one[2] = one[0] + 1, one[1] + count, one[2] + busy_s
    whole_s = sum(one[2] for one in sums.values()) or 1.0
    ranked = sorted(sums.items(), key=lambda item: (-item[1][2], item[0]))
    return [
        {"name": name, "num": int(num), "num_kernels": int(count), "time_s": busy_s, "time_frac": busy_s / whole_s}
        for name, (num, count, busy_s) in ranked
        if count
    ]


def _operator(op: DispatchedOp) -> str:
    dtype = next((tensor.dtype for tensor in (*op.outputs, *op.inputs) if tensor is not None), "")
    return f"{op.name.removeprefix('aten.').partition('.')[0].strip('_')} {dtype}".strip()


def _module(op: DispatchedOp) -> str:
    """Its path, with numbers of repeated layers left open."""
    path = re.sub(r"\b\d+\b", "*", op.module)
    return ".".join(path.split(".")[:MODULE_DEPTH]) or (OUTERMOST if op.phase != "optimizer" else "optimizer")


def eager_tables(record: Record) -> tuple[Table, ...]:
    """`record` is an `eager_record`."""
    tables = _head(record), _rows(record, "operators", "operator"), _rows(record, "modules", "module")
    return (*tables, _advice(record)) if record["advice"] else tables


def _advice(record: Record) -> Table:
    rows = tuple(
        (one["change"], format_s(one["gain_s"]), percent(one["gain_frac"]), one["module"]) for one in record["advice"]
    )
    notes = ("each change by itself, over one step; the module is the one that gains the most",)
    columns = ("change", "gain", "share", "module")
    return Table(title="What a change would gain", columns=columns, rows=rows, align="lrrl", notes=notes)


def eager_sentence(record: Record) -> str:
    fused_s = record["fused_step_s"]
    better = f"; with fused kernels {format_s(fused_s)}" if fused_s else ""
    return f"as written {format_s(record['step_s'])}{better}"


def _head(record: Record) -> Table:
    phases = ", ".join(f"{phase} {format_s(record[f'{phase}_s'])}" for phase in ("forward", "backward", "optimizer"))
    over = record["peak_bytes"] > record["memory_bytes"]
    rows = (
        ("step time", eager_sentence(record)),
        ("of it", phases),
        ("peak memory", f"{format_bytes(record['peak_bytes'])} of {format_bytes(record['memory_bytes'])}"
                        + (": out of memory" if over else "")),
        ("host", f"the device waits for it {percent(record['host_bound_frac'])} of the step"),
        ("runs", f"{record['num_operators']:,} operators, {record['num_kernels']:,} kernels"),
        *(("note", note) for note in record["notes"]),
    )  # fmt: skip
    title = f"step on {record['chip']}: batch {record['batch']:,}" + (
        f", seq {record['seq']:,}" if record["seq"] > 1 else ""
    )
    return Table(title=title, rows=rows)


def _rows(record: Record, key: str, label: str) -> Table:
    rows = tuple(
        (
            one["name"],
            f"{one['num']:,}",
            f"{one['num_kernels']:,}",
            format_s(one["time_s"]),
            percent(one["time_frac"]),
        )
        for one in record[key][:MOST_ROWS]
    )
    rest = record[key][MOST_ROWS:]
    notes = (f"{len(rest):,} more with {percent(sum(one['time_frac'] for one in rest))}",) if rest else ()
    columns = (label, "times", "kernels", "time", "share")
    return Table(title=f"Time by {label}", columns=columns, rows=rows, align="lrrrr", notes=notes)
