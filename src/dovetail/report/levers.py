"""A plan that does not fit: need, limit, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.evaluate import Infeasible
from dovetail.hardware.heterogeneous import chip_names
from dovetail.parallel.levers import Lever
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.figures import Entry, Figure, FigureList, Part, Phrase, TextOnly, labelled, phrase
from dovetail.report.memory import fit_phrase, usable_phrase
from dovetail.units import format_bytes, format_s

MAX_LEVERS = 8
PASTE = "put a change under plan: in the spec, in place of the key it names; a comma sets two keys apart"


def lacks_host(result: Infeasible) -> bool:
    """Whether the device has room, and its host has not."""
    return result.memory.need_bytes <= result.memory.limit_bytes


def excess_rows(result: Infeasible, within: str = "") -> tuple[Entry, ...]:
    """Need against limit, and the first way out; keys begin with `within`."""
    use, stage, is_host = result.memory, result.memory.fullest.stage, lacks_host(result)
    chip = pool_of_stage(result.plan, result.cluster, stage).chip
    need_bytes, limit_bytes = (
        (use.host_need_bytes, use.host_limit_bytes) if is_host else (use.need_bytes, use.limit_bytes)
    )
    need = Figure(f"{within}need_bytes", need_bytes, format_bytes(need_bytes))
    limit = Figure(f"{within}limit_bytes", limit_bytes, format_bytes(limit_bytes))
    named = Figure(f"{within}chip", chip_names(result.cluster), chip.name)
    fullest = Figure(f"{within}stage", stage, str(stage))
    shorter = 0 if is_host else shorter_seq(result)
    return (
        *((fit_phrase(result, within), usable_phrase(result, within)) if is_host else ()),
        Figure(f"{within}exceeded_memory", "host" if is_host else "device"),
        fullest,
        phrase("{} on the host for a device", need, label="need")
        if is_host
        else phrase("{} on a device of stage {}; {}", need, fullest, fit_phrase(result, within), label="need"),
        phrase("{}, a device's share of the host's memory", limit, label="limit")
        if is_host
        else phrase("{} usable on {}, {}", limit, named, usable_phrase(result, within), label="limit"),
        Figure(f"{within}excess_bytes", need_bytes - limit_bytes, format_bytes(need_bytes - limit_bytes), "excess"),
        phrase("{}", _first_way_out(result, within), label="would fit"),
        phrase(
            "a shorter seq needs less: --seq {}",
            TextOnly("shorter seq", str(shorter)),
            label="or",
            is_shown=bool(shorter),
        ),
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


def levers_list(result: Infeasible) -> FigureList:
    """Changes, each tried: those that fit first, single ones before pairs; where none does, the nearest first."""
    ranked = _ranked(result)
    shown = ranked[:MAX_LEVERS]
    says_where = any(lever.memory == "host" for lever in shown)

    def figures(lever: Lever) -> Iterator[Figure | Phrase]:
        need = Figure("need_bytes", lever.need_bytes, format_bytes(lever.need_bytes))
        of = labelled("memory", lever.memory)
        yield Figure("fits", lever.fits, "fits" if lever.fits else "over", "")
        # where some lack memory of the host and others of the device, of which
        yield phrase("{} of {}" if says_where else "{}", need, of, label="need", align="r")
        yield Figure("step_s", lever.step_s, format_s(lever.step_s), "step")
        yield Figure("change", lever.change, lever.change.replace(" and ", ", "), "change in the plan")

    has_fitting = any(lever.fits for lever in ranked)
    return FigureList(
        key="levers",
        title="What would make it fit" if has_fitting else "Changes tried",
        items=result.levers,
        figures=figures,
        shown=shown,
        notes=tuple(_notes(result, ranked)),
    )


def _notes(result: Infeasible, ranked: tuple[Lever, ...]) -> Iterator[Part]:
    num_shown = min(len(ranked), MAX_LEVERS)
    fitting = [lever for lever in ranked if lever.fits]
    if not fitting:
        lacking = "host" if lacks_host(result) else "chip"
        yield phrase("nothing tried fits; combine more changes, or take more devices or a {} with more memory", lacking)
    elif num_changes(fitting[0]) > 1:
        yield "no single change fits; those that do are two at a time"
    if len(ranked) > num_shown:
        counts = (TextOnly("levers shown", str(num_shown)), TextOnly("levers", str(len(ranked))))
        yield phrase("the first {} of {} changes that need less; JSON has all", *counts)
    if num_shown:
        yield PASTE


def _ranked(result: Infeasible) -> tuple[Lever, ...]:
    """As they come, but for a pair that fits: a single change that does goes before it."""
    return tuple(sorted(result.levers, key=lambda lever: (not lever.fits, num_changes(lever) if lever.fits else 0)))


def _first_way_out(result: Infeasible, within: str) -> Part:
    if not result.levers:
        return "nothing tried needs less"
    first = _ranked(result)[0]
    place = f"{within}levers[{result.levers.index(first)}]"
    message = phrase(
        "{} ({}{})",
        labelled(f"{place}.change", first.change),
        Figure(f"{place}.need_bytes", first.need_bytes, format_bytes(first.need_bytes)),
        phrase(" of {}", labelled(f"{place}.of", first.memory)) if lacks_host(result) or first.memory == "host" else "",
    )
    if not first.fits:
        return phrase("nothing tried does; nearest is {}", message)
    return message if num_changes(first) == 1 else phrase("no single change; both of {}", message)
