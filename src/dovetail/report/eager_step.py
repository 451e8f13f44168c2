"""A training step as its code runs, as plain data and tables: time, memory, and what they go to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from dovetail.report.labels import percent
from dovetail.report.page import Card
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.step.eager import EagerStep, outside_evidence
from dovetail.step.eager_advice import Advice, layers_open
from dovetail.step.eager_fusions import PRODUCTS, packet_of
from dovetail.units import format_bytes, format_s
from dovetail.workload.dispatched import DispatchedOp

MOST_ROWS = 12  # of each table; --json has them all
MODULE_DEPTH = 5  # parts of a module's path that are told apart
OUTERMOST = "(no module)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep:
    """The step of the recognised model with the kernel set `kernels`, a framework's or, where that is empty, none's."""

    kernels: str
    framework: str
    step_s: float
    compiled: bool = False  # layers by layers, by torch.compile
    layers_of: str = ""  # whose layers they are, where not the framework's own

    @property
    def words(self) -> str:
        whose = f"{self.layers_of or self.framework}'s kernels" if self.framework else f"{self.kernels} kernels"
        return f"{whose}{' (compiled layers)' if self.compiled else ''} {format_s(self.step_s)}"


def eager_record(
    found: EagerStep,
    *,
    batch: int,
    seq: int,
    memory_bytes: float,
    kernel_steps: tuple[KernelStep, ...] = (),
    kernel_sets_as: str = "",
    advice: tuple[Advice, ...] = (),
    eager_step_s: float = 0.0,
) -> Record:
    """`memory_bytes` are the chip's; of a model that was not recognised there are no `kernel_steps`.

    `kernel_sets_as` has the dtype and optimizer that those were priced with. `eager_step_s` is that of
    a compiled step without torch.compile, else 0.
    """
    return {
        "chip": found.chip,
        "batch": batch,
        "seq": seq,
        "step_s": found.step_s,
        **{f"{phase}_s": phase_s for phase, phase_s in found.phase_s},
        "fused_step_s": next((one.step_s for one in kernel_steps if one.kernels == "fused"), 0.0),
        "eager_step_s": eager_step_s,
        "kernel_sets": [
            {"kernels": one.kernels, "framework": one.framework, "step_s": one.step_s, "words": one.words}
            for one in kernel_steps
        ],
        "kernel_sets_as": kernel_sets_as if kernel_steps else "",
        "host_bound_frac": found.host_bound_frac,
        "clock_frac": found.clock_frac,
        "peak_bytes": found.peak_bytes,
        "reserved_bytes": found.reserved_bytes,
        "state_bytes": found.step.state_bytes,
        "memory_bytes": memory_bytes,
        "num_operators": len(found.step.ops),
        "num_kernels": int(found.launches.sum()),
        "operators": _grouped(found, _operator_in_tf32 if found.step.has_tf32 else _operator),
        "modules": _grouped(found, _module),
        "advice": [
            {
                "change": one.change,
                "gain_s": one.gain_s,
                "gain_frac": one.gain_frac,
                "module": one.module,
                "line": one.line,
            }
            for one in advice
        ],
        "notes": [*found.step.notes, *outside_evidence(found.chip)],
    }


def _grouped(found: EagerStep, name_of: Callable[[DispatchedOp], str]) -> list[Record]:
    return grouped_operators(found.step.ops, found.operator_s.tolist(), found.launches.tolist(), name_of)


def _operator(op: DispatchedOp) -> str:
    dtype = next((tensor.dtype for tensor in (*op.outputs, *op.inputs) if tensor is not None), "")
    return f"{op.name.removeprefix('aten.').partition('.')[0].strip('_')} {dtype}".strip()


def _operator_in_tf32(op: DispatchedOp) -> str:
    """Where the code lets products of fp32 run in TF32, they are named by that."""
    name = _operator(op)
    return name.removesuffix(" fp32") + " tf32" if packet_of(op) in PRODUCTS and name.endswith(" fp32") else name


def grouped_operators(
    ops: tuple[DispatchedOp, ...],
    times_s: list[float],
    launches: list[float],
    name_of: Callable[[DispatchedOp], str] = _operator,
) -> list[Record]:
    """Operators of one name together, those that take the longest first; collectives and views are left out."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for op, busy_s, count in zip(ops, times_s, launches, strict=True):
        if op.collective is not None:
            continue
        one = sums[name_of(op)]
        one[0], one[1], one[2] = one[0] + 1, one[1] + count, one[2] + busy_s
    whole_s = sum(one[2] for one in sums.values()) or 1.0
    ranked = sorted(sums.items(), key=lambda item: (-item[1][2], item[0]))
    return [
        {"name": name, "num": int(num), "num_kernels": int(count), "time_s": busy_s, "time_frac": busy_s / whole_s}
        for name, (num, count, busy_s) in ranked
        if count
    ]


def _module(op: DispatchedOp) -> str:
    """Its path, with numbers of repeated layers left open."""
    return ".".join(layers_open(op.module).split(".")[:MODULE_DEPTH]) or (
        OUTERMOST if op.phase != "optimizer" else "optimizer"
    )


def eager_tables(record: Record) -> tuple[Table, ...]:
    """`record` is an `eager_record`."""
    tables = _head(record), _rows(record, "operators", "operator"), _rows(record, "modules", "module")
    return (*tables, _advice(record)) if record["advice"] else tables


def _advice(record: Record) -> Table:
    rows: list[tuple[str, ...]] = []
    for one in record["advice"]:
        rows.append((one["change"], format_s(one["gain_s"]), percent(one["gain_frac"])))
        if place := _place(one):
            rows.append((f"  {place}", "", ""))
    notes = (
        "each change by itself, over one step; the module and its line are those that gain the most",
        "what torch.compile would gain: --compile records that step too",
    )
    columns = ("change", "gain", "share")
    return Table(title="What a change would gain", columns=columns, rows=tuple(rows), align="lrr", notes=notes)


def _place(one: Record) -> str:
    """The line by its file, and the module by the end of its path; the JSON has both paths whole."""
    module = one["module"].removesuffix(".*").rpartition(".")[2]
    line = one["line"].replace("\\", "/").rpartition("/")[2]
    return " in ".join(part for part in (line, module) if part)


def eager_cards(record: Record) -> tuple[Card, ...]:
    """The key figures of a page: `record` is an `eager_record`."""
    peak = f"of {format_bytes(record['memory_bytes'])}"
    over = ": out of memory" if record["peak_bytes"] > record["memory_bytes"] else ""
    how = "compiled" if record["eager_step_s"] else "as written"
    return (
        Card(label="Step time", value=format_s(record["step_s"]), note=f"{how}, on {record['chip']}"),
        Card(label="Peak memory", value=format_bytes(record["peak_bytes"]), note=f"{peak}{over}"),
    )


def eager_sentence(record: Record) -> str:
    """The step as written, and with the kernels of frameworks, or with fused ones where none would train it."""
    sets = [one["words"] for one in record["kernel_sets"] if one["framework"]]
    sets = sets or [one["words"] for one in record["kernel_sets"]]
    own = f"as written {format_s(record['eager_step_s'] or record['step_s'])}"
    if record["eager_step_s"]:
        own = f"compiled {format_s(record['step_s'])}; {own}"
    return "; ".join((own, *(f"with {words}" for words in sets)))


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
        *_kernel_sets_row(record),
        *(("note", note) for note in record["notes"]),
    )  # fmt: skip
    title = f"step on {record['chip']}: batch {record['batch']:,}" + (
        f", seq {record['seq']:,}" if record["seq"] > 1 else ""
    )
    return Table(title=title, rows=rows)


def _kernel_sets_row(record: Record) -> tuple[tuple[str, str], ...]:
    """What the steps with other kernels are of, so that they can be compared with the step as written."""
    if not record["kernel_sets"]:
        return ()
    model = "on the same host, by the planner's model: compare them with each other first"
    return (("kernel sets", f"priced in {record['kernel_sets_as']}, {model}"),)


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
