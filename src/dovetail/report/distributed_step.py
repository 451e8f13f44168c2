"""A training step as distributed code runs it, as plain data and tables: time, overlap, memory, and its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.evaluate import Infeasible, Outcome
from dovetail.report.charts.rank_time import time_by_rank
from dovetail.report.eager_step import MOST_ROWS, grouped_operators
from dovetail.report.labels import counted, percent, plan_in_brief
from dovetail.report.outcome import plan_record
from dovetail.report.page import Card, Page, Section
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.report.tracks import Note, Process, Slice, Track
from dovetail.step.distributed import CollectiveTotal, DistributedOutcome, RankOutcome
from dovetail.step.eager_advice import Advice
from dovetail.step.recognised import Recognised
from dovetail.step.time_parts import TimePart
from dovetail.units import format_bytes, format_count, format_s
from dovetail.workload.dispatched import COMPUTE_STREAM, DispatchedOp

COMPUTE_TRACK = "compute"
NO_INTERVAL = "none: no step of recorded code was measured on several GPUs to tell an error from"
SUMMED = ("num_calls", "time_s", "exposed_s")  # of calls of one row


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansBeside:
    """The same model as plans: as the code has it with kernels as PyTorch launches them and with fused ones, and best.

    Each is there where it is known: `why_not` says why one is not. `parts` are those of the code's step and of the same
    plan's with kernels as PyTorch launches them.
    """

    as_written: tuple[Outcome | Infeasible, ...] = ()
    fused: tuple[Outcome | Infeasible, ...] = ()
    best: tuple[Outcome | Infeasible, ...] = ()
    parts: tuple[TimePart, ...] = ()
    why_not: str = ""


def distributed_record(
    found: DistributedOutcome,
    recognised: Recognised,
    *,
    beside: PlansBeside | None = None,
    advice: tuple[Advice, ...] = (),
    mfu_frac: float = 0.0,
) -> Record:
    """All that is known of a step of distributed code; throughput is 0 where its batch is not known."""
    plans = beside or PlansBeside()
    per_device_s = found.step_s * found.step.world_size
    num_tokens = recognised.global_batch * recognised.seq
    return {
        "cluster": found.cluster,
        "chip": found.chip,
        "world_size": found.step.world_size,
        "mesh": [{"dim": dim, "size": size} for dim, size in found.step.mesh],
        "step_s": found.step_s,
        "num_parameters": recognised.num_parameters,
        "tokens_per_s": num_tokens / found.step_s if found.step_s else 0.0,
        "tokens_per_s_per_device": num_tokens / per_device_s if per_device_s else 0.0,
        "samples_per_s": recognised.global_batch / found.step_s if found.step_s else 0.0,
        "mfu_frac": mfu_frac,
        "fits": found.fits,
        "memory_bytes": found.memory_bytes,
        "ranks": [_rank_record(one, found) for one in found.ranks],
        "recognised": _recognised_record(recognised),
        "same_plan": _plan_outcome_record(plans.as_written),
        "fused_plan": _plan_outcome_record(plans.fused),
        "best_plan": _plan_outcome_record(plans.best),
        "parts": [{"part": one.name, "code_s": one.code_s, "plan_s": one.plan_s} for one in plans.parts],
        "why_no_plan": plans.why_not,
        "advice": [{"change": one.change, "gain_s": one.gain_s, "gain_frac": one.gain_frac} for one in advice],
        "notes": list(found.notes),
    }


def _rank_record(one: RankOutcome, found: DistributedOutcome) -> Record:
    return {
        "rank": one.rank,
        "num_ranks": one.num_ranks,
        "compute_s": one.compute_s,
        "contention_s": one.contention_s,
        "exposed_s": one.exposed_s,
        "host_s": one.host_s,
        "idle_s": one.idle_s,
        "comm_s": one.comm_s,
        "overlap_frac": one.overlap_frac,
        **{f"{phase}_s": phase_s for phase, phase_s in one.phase_s},
        "clock_frac": one.clock_frac,
        "peak_bytes": one.peak_bytes,
        "reserved_bytes": one.reserved_bytes,
        "outside_bytes": one.outside_bytes,
        "fits": one.needed_bytes <= found.memory_bytes,
        "num_operators": len(one.step.ops),
        "num_kernels": int(one.launches.sum()),
        "collectives": [_collective_record(each) for each in one.collectives],
        "operators": grouped_operators(one.step.ops, one.kernel_s.tolist(), one.launches.tolist()),
    }


def _collective_record(one: CollectiveTotal) -> Record:
    return {
        "kind": one.kind,
        "group": one.group,
        "num_ranks": one.num_ranks,
        "num_nodes": one.num_nodes,
        "bytes": one.num_bytes,
        "num_calls": one.num_calls,
        "time_s": one.time_s,
        "alone_s": one.alone_s,
        "peer_wait_s": one.peer_wait_s,
        "exposed_s": one.exposed_s,
    }


def _recognised_record(found: Recognised) -> Record:
    return {
        "degrees": dict(found.degrees),
        "plan": plan_record(found.plans[0]) if found.plans else {},
        "reasons": list(found.reasons),
        "microbatch": found.batch,
        "seq": found.seq,
        "num_microbatches": found.num_microbatches,
        "global_batch": found.global_batch,
        "groups": [
            {"group": one.group, "role": one.role, "num_ranks": len(one.ranks), "calls": list(one.kinds)}
            for one in found.communicators
        ],
    }


def _plan_outcome_record(found: tuple[Outcome | Infeasible, ...]) -> Record:
    for one in found:
        step_s = float(one.step.step_s) if isinstance(one, Outcome) else 0.0
        return {
            "plan": plan_record(one.plan),
            "label": plan_in_brief(one.plan),
            "step_s": step_s,
            "fits": isinstance(one, Outcome),
            "need_bytes": one.memory.need_bytes,
        }
    return {}


def distributed_sentence(record: Record) -> str:
    """Your code, the same plan with fused kernels, and the best plan, each in seconds where it is known."""
    parts = [f"your code {format_s(record['step_s'])}"]
    fused, best = record["fused_plan"], record["best_plan"]
    if fused and fused["fits"]:
        parts.append(f"the same plan with fused kernels {format_s(fused['step_s'])}")
    if best and best["fits"]:
        parts.append(f"best plan {best['label']}: {format_s(best['step_s'])}")
    return "; ".join(parts)


def plan_label(record: Record) -> str:
    """What the code is as a plan, or why it is none."""
    found = record["recognised"]
    if found["plan"]:
        degrees = ", ".join(f"{axis} {size}" for axis, size in found["degrees"].items() if size > 1) or "one device"
        degrees += ", sequence parallel" if found["plan"]["sequence_parallel"] else ""
        zero = f", ZeRO-{found['plan']['zero_stage']}" if found["plan"]["zero_stage"] else ""
        batches = f"{counted(found['num_microbatches'], 'microbatch')} of {found['microbatch']:,}"
        again = ", ".join(sorted({one for one in found["plan"]["recompute"] if one != "none"}))
        return f"{degrees}{zero}; {batches}{f'; {again} recompute' if again else ''}"
    return "none: " + "; ".join(found["reasons"])


def distributed_tables(record: Record) -> tuple[Table, ...]:
    """`record` is a `distributed_record`."""
    found = [_head(record), _limits(record), *_collectives(record)]
    if record["same_plan"] or record["best_plan"]:
        found.append(_plans(record))
    if record["parts"]:
        found.append(_parts(record))
    found.append(_operators(record))
    if record["advice"]:
        found.append(_advice(record))
    return tuple(found)


def _head(record: Record) -> Table:
    mesh = " x ".join(f"{one['dim']} {one['size']}" for one in record["mesh"])
    rows = (
        ("step time", distributed_sentence(record)),
        ("plan", plan_label(record)),
        *((("mesh", mesh),) if mesh else ()),
        *_throughput_rows(record),
        *_memory_rows(record),
        *((("other plans", record["why_no_plan"]),) if record["why_no_plan"] else ()),
        ("90 % interval", NO_INTERVAL),
        *(("note", note) for note in record["notes"]),
    )  # fmt: skip
    return Table(title=f"{record['world_size']:,} ranks on {record['cluster']} ({record['chip']})", rows=rows)


def _throughput_rows(record: Record) -> Iterator[tuple[str, str]]:
    """What the step trains and how fast; no throughput where the recording does not show the batch."""
    found = record["recognised"]
    yield "parameters", format_count(record["num_parameters"])
    if found["global_batch"] and found["seq"]:
        yield "global batch", f"{counted(found['global_batch'], 'sample')} of {found['seq']:,} tokens"
        each = f"{record['tokens_per_s_per_device']:,.0f} tokens/s per device"
        yield "throughput", f"{record['tokens_per_s']:,.0f} tokens/s, {each}"
    elif found["global_batch"]:
        yield "global batch", counted(found["global_batch"], "sample")
        yield "throughput", f"{record['samples_per_s']:,.0f} samples/s"
    if record["mfu_frac"]:
        yield "MFU", percent(record["mfu_frac"])


def _memory_rows(record: Record) -> tuple[tuple[str, str], ...]:
    """What the fullest rank needs, and the highest peak of allocated memory; these may be of two ranks."""
    fullest = max(record["ranks"], key=_need_bytes)
    highest = max(record["ranks"], key=lambda one: one["peak_bytes"])
    over = "" if record["fits"] else ": out of memory"
    peak = f"{format_bytes(highest['peak_bytes'])} allocated on rank {highest['rank']}"
    if highest["peak_bytes"] > fullest["peak_bytes"]:
        peak += f", {format_bytes(fullest['peak_bytes'])} on rank {fullest['rank']}"
    need = f"{format_bytes(_need_bytes(fullest))} of {format_bytes(record['memory_bytes'])} on rank {fullest['rank']}"
    return ("memory", f"{need} with reserve, context and NCCL{over}"), ("peak memory", peak)


def _need_bytes(rank: Record) -> float:
    return float(rank["reserved_bytes"] + rank["outside_bytes"])


def _limits(record: Record) -> Table:
    """Where the time of each recorded rank goes."""
    step_s = record["step_s"] or 1.0
    rows = tuple(
        (
            f"{one['rank']}",
            f"{one['num_ranks']:,}",
            *(percent(one[key] / step_s) for key in ("compute_s", "exposed_s", "host_s", "idle_s")),
            percent(one["overlap_frac"]) if one["comm_s"] else "-",
            format_bytes(one["peak_bytes"]),
        )
        for one in record["ranks"]
    )
    columns = ("rank", "ranks", "compute", "exposed", "host", "idle", "overlapped", "peak")
    notes = (
        "compute: kernels run; exposed: communication that no kernel overlaps; host: the device waits for launches;"
        " idle: waits for other ranks; overlapped: share of communication that kernels overlap",
    )
    return Table(title="Where the time goes", columns=columns, rows=rows, align="lrrrrrrr", notes=notes)


def _pace(record: Record) -> tuple[Record, str]:
    """The rank that sets the pace, as it waits least for others, and what tables of it are called."""
    rank = min(record["ranks"], key=lambda one: (one["idle_s"], one["rank"]))
    return rank, f"rank {rank['rank']}" + (", which waits least for others" if len(record["ranks"]) > 1 else "")


def _collectives(record: Record) -> tuple[Table, ...]:
    """Of the rank that sets the pace; calls whose payloads read the same are one row."""
    rank, name = _pace(record)
    merged: dict[tuple[str, ...], list[Record]] = {}
    for one in rank["collectives"]:
        shown = f"{one['kind']} {one['group']}".strip(), f"{one['num_ranks']:,}", f"{one['num_nodes']:,}"
        merged.setdefault((*shown, format_bytes(one["bytes"])), []).append(one)
    sums = [(shown, *(sum(one[key] for one in calls) for key in SUMMED)) for shown, calls in merged.items()]
    sums.sort(key=lambda row: (-row[3], -row[2]))
    if not sums:
        return ()
    rows = tuple(
        (*shown, f"{num_calls:,}", format_s(time_s), format_s(exposed_s))
        for shown, num_calls, time_s, exposed_s in sums[:MOST_ROWS]
    )
    rest = sums[MOST_ROWS:]
    notes = (f"{counted(len(rest), 'row')} more with {format_s(sum(row[3] for row in rest))} exposed",)
    return (
        Table(
            title=f"Collectives of {name}",
            columns=("collective", "ranks", "nodes", "bytes/call", "calls", "time", "exposed"),
            rows=rows,
            align="lrrrrrr",
            notes=notes if rest else (),
        ),
    )


def _plans(record: Record) -> Table:
    peak = max(map(_need_bytes, record["ranks"]))
    rows = [("your code", format_s(record["step_s"]), format_bytes(peak), plan_label(record))]
    names = (
        ("same_plan", "as a plan"),
        ("fused_plan", "with fused kernels"),
        ("best_plan", "best plan"),
    )
    for key, name in names:
        one = record[key]
        if one:
            time = format_s(one["step_s"]) if one["fits"] else "does not fit"
            rows.append((name, time, format_bytes(one["need_bytes"]), one["label"]))
    return Table(title="Against plans", columns=("", "step", "memory", "plan"), rows=tuple(rows), align="lrrl")


def _parts(record: Record) -> Table:
    """The code's step and that of the same plan, part by part."""
    parts = [one for one in record["parts"] if max(one["code_s"], one["plan_s"]) > 0]
    sums = {key: sum(one[key] for one in parts) for key in ("code_s", "plan_s")}
    rows = tuple(
        (one["part"], format_s(one["code_s"]), format_s(one["plan_s"]), _signed_s(one["code_s"] - one["plan_s"]))
        for one in (*parts, {"part": "step", **sums})
    )
    columns = ("part", "your code", "as a plan", "difference")
    notes = ("kernels at full clock; communication is what is exposed, and what overlapped compute loses",)
    return Table(title="Your code and the same plan", columns=columns, rows=rows, align="lrrr", notes=notes)


def _signed_s(value_s: float) -> str:
    return f"{'-' if value_s < 0 else '+'}{format_s(abs(value_s))}"


def _operators(record: Record) -> Table:
    """Of the rank that sets the pace."""
    rank, name = _pace(record)
    rows = tuple(
        (one["name"], f"{one['num']:,}", f"{one['num_kernels']:,}", format_s(one["time_s"]), percent(one["time_frac"]))
        for one in rank["operators"][:MOST_ROWS]
    )
    rest = rank["operators"][MOST_ROWS:]
    notes = (f"{len(rest):,} more with {percent(sum(one['time_frac'] for one in rest))}",) if rest else ()
    columns = ("operator", "times", "kernels", "time", "share")
    return Table(title=f"Kernels of {name}", columns=columns, rows=rows, align="lrrrr", notes=notes)


def _advice(record: Record) -> Table:
    rows = tuple((one["change"], format_s(one["gain_s"]), percent(one["gain_frac"])) for one in record["advice"])
    notes = ("each change by itself, over one step",)
    columns = ("change", "gain", "share")
    return Table(title="What a change would gain", columns=columns, rows=rows, align="lrr", notes=notes)


def distributed_page(record: Record, title: str) -> Page:
    """`record` as a page."""
    head, *others = distributed_tables(record)
    slowest = max(record["ranks"], key=lambda one: one["compute_s"] + one["exposed_s"])
    cards = (
        Card(label="step", value=format_s(record["step_s"])),
        Card(label="exposed communication", value=percent(slowest["exposed_s"] / (record["step_s"] or 1.0))),
        Card(label="memory", value="fits" if record["fits"] else "out of memory"),
    )
    return Page(
        title=title,
        sentence=f"{distributed_sentence(record)}.",
        cards=cards,
        sections=(Section(title="The step", charts=(time_by_rank(record),), tables=(head, *others)),),
    )


def distributed_processes(found: DistributedOutcome) -> tuple[Process, ...]:
    """The step as tracks for a viewer: a process for each recorded rank, a track for each of its streams."""
    return tuple(
        Process(number=one.rank + 1, name=_process_name(one), tracks=tuple(_tracks(one))) for one in found.ranks
    )


def _process_name(one: RankOutcome) -> str:
    return f"rank {one.rank}" + (f", the same on {one.num_ranks:,}" if one.num_ranks > 1 else "")


def _tracks(rank: RankOutcome) -> list[Track]:
    streams: dict[str, list[Slice]] = {COMPUTE_STREAM: []}
    starts, ends = rank.timeline.starts_s, rank.timeline.ends_s
    for op, count, begin_s, end_s in zip(rank.step.ops, rank.launches.tolist(), starts, ends, strict=True):
        if begin_s is None or end_s is None or not count or end_s <= begin_s:
            continue
        streams.setdefault(op.stream, []).append(_slice(op, begin_s, end_s))
    return [Track(name=name or COMPUTE_TRACK, slices=tuple(slices)) for name, slices in streams.items()]


def _slice(op: DispatchedOp, begin_s: float, end_s: float) -> Slice:
    call = op.collective
    notes: tuple[Note, ...] = (("duration_s", end_s - begin_s), ("module", op.module), ("phase", op.phase))
    if call is None:
        name = op.name.removeprefix("aten.").partition(".")[0]
        return Slice(name=name, begin_s=begin_s, end_s=end_s, category="kernel", notes=notes)
    sizes: tuple[Note, ...] = (("bytes", call.num_bytes), ("num_ranks", len(call.ranks)), ("group", call.group))
    return Slice(name=call.kind, begin_s=begin_s, end_s=end_s, category="collective", notes=(*notes, *sizes))
