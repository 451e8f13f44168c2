"""A plan that does not fit: need, limit, and what would make it fit."""

from __future__ import annotations

from dovetail.evaluate import Infeasible
from dovetail.parallel.levers import Lever
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.memory import usable_label
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_s

MAX_LEVERS = 8
PASTE = "put a change under plan: in the spec, in place of the key it names; a comma sets two keys apart"


def excess_rows(result: Infeasible) -> tuple[tuple[str, str], ...]:
    """Need against limit, and the first way out."""
    use, stage = result.memory, result.memory.fullest.stage
    chip = pool_of_stage(result.plan, result.cluster, stage).chip
    if use.need_bytes <= use.limit_bytes:
        return _host_rows(result)
    shorter = shorter_seq(result)
    return (
        ("need", f"{format_bytes(use.need_bytes)} on a device of stage {stage}"),
        ("limit", f"{usable_label(chip)} on {chip.name}"),
        ("excess", format_bytes(use.need_bytes - use.limit_bytes)),
        ("would fit", _first_way_out(result)),
        *((("or", f"a shorter seq needs less: --seq {shorter}"),) if shorter else ()),
    )


def _host_rows(result: Infeasible) -> tuple[tuple[str, str], ...]:
    """Where the device has room, and its host has not."""
    use = result.memory
    return (
        ("need", f"{format_bytes(use.host_need_bytes)} on the host for a device"),
        ("limit", f"{format_bytes(use.host_limit_bytes)}, a device's share of the host's memory"),
        ("excess", format_bytes(use.host_need_bytes - use.host_limit_bytes)),
        ("would fit", _first_way_out(result)),
    )


SHORTEST_SEQ = 128  # below this nobody trains a language model


def shorter_seq(result: Infeasible) -> int:
    """Where activations dominate: half the length, and half again until it would fit if they shrank with it, or 0."""
    use, workload = result.memory, result.workload
    fullest = use.fullest
    grows_bytes = fullest.activations_bytes  # buffers may be gathered parameters, which no length shrinks
    if workload.model.sample != "tokens" or workload.seq < 2 or 2 * grows_bytes < fullest.total_bytes:
        return 0
    reserved = use.reserve_bytes / fullest.total_bytes
    seq = workload.seq // 2
    while seq >= SHORTEST_SEQ:
        held_bytes = fullest.total_bytes - grows_bytes * (1 - seq / workload.seq)
        if held_bytes * (1 + reserved) + use.runtime_bytes <= use.limit_bytes:
            return seq
        seq //= 2
    return 0


def num_changes(lever: Lever) -> int:
    """Decisions that a lever changes: a degree and the copies that give way to it are one."""
    return len(lever.change.split(" and "))


def levers_table(result: Infeasible) -> Table:
    """Changes, each tried: those that fit first, single ones before pairs; where none does, the nearest first."""
    ranked = _ranked(result)
    says_where = any(lever.memory == "host" for lever in ranked[:MAX_LEVERS])
    rows = tuple(
        (
            "fits" if lever.fits else "over",
            _need(lever, says_where=says_where),
            format_s(lever.step_s),
            lever.change.replace(" and ", ", "),
        )
        for lever in ranked[:MAX_LEVERS]
    )
    fitting = [lever for lever in ranked if lever.fits]
    notes = [PASTE] if rows else []
    if len(ranked) > len(rows):
        notes.insert(0, f"the first {len(rows)} of {len(ranked)} changes that need less; JSON has all")
    if not fitting:
        lacking = "host" if result.memory.need_bytes <= result.memory.limit_bytes else "chip"
        way_out = f"combine more changes, or take more devices or a {lacking} with more memory"
        notes.insert(0, f"nothing tried fits; {way_out}")
    elif num_changes(fitting[0]) > 1:
        notes.insert(0, "no single change fits; those that do are two at a time")
    return Table(
        title="What would make it fit" if fitting else "Changes tried",
        columns=("", "need", "step", "change in the plan"),
        rows=rows,
        align="lrrl",
        notes=tuple(notes),
    )


def _need(lever: Lever, *, says_where: bool) -> str:
    """What a change needs; where some lack memory of the host and others of the device, of which."""
    need = format_bytes(lever.need_bytes)
    return f"{need} of {lever.memory}" if says_where else need


def _ranked(result: Infeasible) -> tuple[Lever, ...]:
    """As they come, but for a pair that fits: a single change that does goes before it."""
    return tuple(sorted(result.levers, key=lambda lever: (not lever.fits, num_changes(lever) if lever.fits else 0)))


def _first_way_out(result: Infeasible) -> str:
    if not result.levers:
        return "nothing tried needs less"
    first = _ranked(result)[0]
    lacks_host = result.memory.need_bytes <= result.memory.limit_bytes
    where = f" of {first.memory}" if lacks_host or first.memory == "host" else ""
    message = f"{first.change} ({format_bytes(first.need_bytes)}{where})"
    if not first.fits:
        return f"nothing tried does; nearest is {message}"
    return message if num_changes(first) == 1 else f"no single change; both of {message}"
