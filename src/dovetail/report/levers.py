"""A plan that does not fit: need, limit, and what would make it fit."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.evaluate import Infeasible, hypothetical_step_s
from dovetail.hardware.heterogeneous import chip_names
from dovetail.parallel.levers import Lever
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.figures import Entry, Figure, FigureList, FigureTable, Part, Phrase, TextOnly, labelled, phrase
from dovetail.report.memory import fit_phrase, usable_phrase
from dovetail.report.table import GAP, WIDTH
from dovetail.units import format_bytes, format_s

MAX_LEVERS = 8
PASTE = "put a change under plan: in the spec, in place of the key it names; a comma or an and sets two keys apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes in the form in which the job was given: `words` of one, the `label` of their column, where they go.

    `key` is what records have the words under. `command` runs a change; empty where there is none to give.
    """

    key: str = "change"
    words: Callable[[Lever], str] = lambda lever: lever.change
    label: str = "change in the plan"
    note: str = PASTE
    command: Callable[[Lever], str] = lambda _: ""


IN_SPEC = Advice()


def lacks_host(result: Infeasible) -> bool:
    """Whether the device has room, and its host has not."""
    return result.memory.need_bytes <= result.memory.limit_bytes


def excess_rows(result: Infeasible, within: str = "", advice: Advice = IN_SPEC) -> tuple[Entry, ...]:
    """Need against limit, and the best way out; keys begin with `within`."""
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
    step_s = hypothetical_step_s(result)
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
        phrase(
            "not runnable: {} if {} had the memory",
            Figure(f"{within}hypothetical_step_s", step_s, format_s(step_s)),
            "hosts" if is_host else "devices",
            label="step time",
        ),
        phrase("{}", _best_way_out(result, within, advice), label="would fit"),
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


def levers_list(result: Infeasible, advice: Advice = IN_SPEC) -> FigureList:
    """Changes, each tried: those that fit first, the fastest foremost; then those that do not, the nearest first."""
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
        yield Figure("change", lever.change)
        yield labelled(advice.key, advice.words(lever), advice.label)

    has_fitting = any(lever.fits for lever in ranked)
    return FigureList(
        key="levers",
        title="What would make it fit" if has_fitting else "Changes tried",
        items=result.levers,
        figures=figures,
        shown=shown,
        notes=tuple(_notes(result, ranked, advice)),
    )


def _notes(result: Infeasible, ranked: tuple[Lever, ...], advice: Advice) -> Iterator[Part]:
    num_shown = min(len(ranked), MAX_LEVERS)
    fitting = [lever for lever in ranked if lever.fits]
    if not fitting:
        lacking = "host" if lacks_host(result) else "chip"
        yield "nothing tried fits: up to two changes at once; dovetail plan searches all plans"
        yield phrase("where that finds none, take more devices or a {} with more memory", lacking)
    elif all(num_changes(lever) > 1 for lever in fitting):
        yield "no single change fits; those that do are two at a time"
    if len(ranked) > num_shown:
        counts = (TextOnly("levers shown", str(num_shown)), TextOnly("levers", str(len(ranked))))
        yield phrase("the first {} of {} changes that need less; JSON has all", *counts)
    if num_shown and advice.note:
        yield advice.note


def repair_table(result: Infeasible, advice: Advice) -> FigureTable:
    """The command that runs the best change that fits; nothing where there is none."""
    fitting = [lever for lever in _ranked(result) if lever.fits]
    command = advice.command(fitting[0]) if fitting else ""
    return commands_table((command,) if command else ())


def commands_table(commands: Sequence[str]) -> FigureTable:
    """What takes an answer on from here, in lines that a shell reads as one each."""
    lines = [line for command in commands for line in _pasted(command)]
    title = "Go on with" if lines else ""
    return FigureTable(title=title, notes=tuple(Figure("commands", list(commands), line) for line in lines))


def _pasted(command: str) -> list[str]:
    *lines, last = textwrap.wrap(command, WIDTH - 2 * GAP, subsequent_indent="", break_on_hyphens=False)
    return [*(f"{line} \\" for line in lines), last]


def _ranked(result: Infeasible) -> tuple[Lever, ...]:
    """As they come, those that fit first."""
    return tuple(sorted(result.levers, key=lambda lever: not lever.fits))


def _best_way_out(result: Infeasible, within: str, advice: Advice) -> Part:
    if not result.levers:
        return "nothing tried needs less"
    first = _ranked(result)[0]
    place = f"{within}levers[{result.levers.index(first)}]"
    message = phrase(
        "{} ({}{}, {} per step)",
        labelled(f"{place}.{advice.key}", advice.words(first)),
        Figure(f"{place}.need_bytes", first.need_bytes, format_bytes(first.need_bytes)),
        phrase(" of {}", labelled(f"{place}.of", first.memory)) if lacks_host(result) or first.memory == "host" else "",
        Figure(f"{place}.step_s", first.step_s, format_s(first.step_s)),
    )
    return message if first.fits else phrase("nothing tried does; nearest is {}", message)
