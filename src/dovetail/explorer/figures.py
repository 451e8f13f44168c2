"""Figures of a result as the explorer shows them: each with its interval, and beside what it is compared with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from dovetail.accuracy.evidence import GIVEN, Selection, interval_of
from dovetail.evaluate import Infeasible, Outcome
from dovetail.files.residuals import load_residuals
from dovetail.report.figures import part_text
from dovetail.report.labels import AXIS_LABELS, number, percent
from dovetail.report.limits import limited_by
from dovetail.report.memory import fit_phrase, usable_phrase
from dovetail.report.outcome import LIMIT_LABELS
from dovetail.step.work import COMM_AXES
from dovetail.units import format_bytes, format_energy_j, format_rate, format_s

TOLERANCE_FRAC = 0.0005  # style: a change that would show as 0.0 %
LIMIT = "limit"
WORKING = "working out what limits it now"
FULL_FRAC = 0.95  # of memory: worth a warning
DIGITS = 3  # of a figure
IN_TEN = "in nine of ten runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure: its name, the value as people say it and as a number, and whether less of it is better."""

    key: str
    label: str
    shown: str
    value: float  # style: in the base unit of what it is
    interval: str = ""
    note: str = ""
    is_less_better: bool = False
    share_frac: float = -1.0  # of a limit, where there is one


Measures = tuple[Measure, ...]


def short(text: str, digits: int = DIGITS) -> str:
    """A value with its unit, rounded: "12.537 s" to "12.5 s"."""
    value, _, unit = text.partition(" ")
    size = float(value.replace(",", ""))
    shown = f"{size:,.0f}" if abs(size) >= 10**digits else f"{size:#.{digits}g}".rstrip(".")
    return f"{shown} {unit}".rstrip()


def measures_of(result: Outcome | Infeasible, selection: Selection = GIVEN) -> Measures:
    """What one watches: time, memory, and, where changes were tried, what limits the step; then rate and energy.

    `selection` is what a search chose the plan among.
    """
    if isinstance(result, Infeasible):
        none = "the plan does not fit"
        return (Measure(key="step", label="Step time", shown="none", value=0.0, note=none), _memory(result))
    step, sample, num_devices = result.step, result.workload.model.sample, result.cluster.num_devices
    per_s = result.tokens_per_s if sample == "tokens" else result.samples_per_s
    found = interval_of(result.workload, result.cluster, result.plan, step.step_s, load_residuals(), selection)
    covered = ", ".join(filter(None, (f"{found.bounds} {IN_TEN}", found.covers)))
    return (
        Measure(key="step", label="Step time", shown=short(format_s(step.step_s)), value=float(step.step_s),
                interval=covered, is_less_better=True, note=found.lacking),
        _memory(result),
        *((limit_of(result),) if result.elasticities else ()),
        Measure(key="rate", label="Throughput", shown=f"{number(per_s / num_devices)} {sample}/s per device",
                value=per_s, note=f"{number(per_s)} {sample}/s on {num_devices:,} devices"),
        Measure(key="mfu", label="MFU", shown=percent(result.mfu_frac), value=result.mfu_frac,
                note="model FLOP over the peak"),
        Measure(key="energy", label="Energy per step", shown=short(format_energy_j(step.energy_j, 1)),
                value=float(step.energy_j), is_less_better=True, note=f"{result.mean_w:.0f} W per device"),
    )  # fmt: skip


def limit_of(outcome: Outcome) -> Measure:
    """What limits the step, in the words of its report, and where most of the time goes, which may be another thing."""
    name, _, more = limited_by(outcome).partition(": ")
    part, part_s = largest_part(outcome)
    share_frac = part_s / outcome.step.step_s
    most = f"most of the time goes to {part}, {percent(share_frac, 0)}"
    note = f"{more.partition('; ')[0]}; {most}" if more else most
    return Measure(key=LIMIT, label="Limited by", shown=name, value=share_frac, note=note)


def _memory(result: Outcome | Infeasible) -> Measure:
    use = result.memory
    need_bytes, limit_bytes = use.need_bytes, use.limit_bytes
    usable = f"{short(format_bytes(limit_bytes))} usable {part_text(usable_phrase(result))}"
    return Measure(
        key="memory",
        label="Memory per device",
        shown=f"{short(format_bytes(need_bytes))}",
        value=need_bytes,
        interval=part_text(fit_phrase(result)),
        note=usable if use.fits else f"{_lacking(result)}; {usable}",
        is_less_better=True,
        share_frac=need_bytes / limit_bytes,
    )


def _lacking(result: Outcome | Infeasible) -> str:
    use = result.memory
    if use.need_bytes > use.limit_bytes:
        over = short(format_bytes(use.need_bytes - use.limit_bytes))
        return f"does not fit: {over} over"
    return "does not fit: the host has too little memory"


def largest_part(outcome: Outcome) -> tuple[str, float]:
    """What most of a step is spent on, by name, and its seconds."""
    step = outcome.step
    parts_s = dict(zip(LIMIT_LABELS, (float(s) for s in step.limits_s), strict=True))
    parts_s |= {AXIS_LABELS[axis]: float(own.exposed_s) for axis, own in zip(COMM_AXES, step.comm, strict=True)}
    parts_s |= {"pipeline bubble": float(step.bubble_s), "update": float(step.update_s)}
    parts_s |= {"copies to the host": float(step.offload.exposed_s), "the host": float(step.host_s)}
    most = max(parts_s, key=lambda name: parts_s[name])
    return most, parts_s[most]


def change_frac(now: Measure, before: Measure) -> float:
    """By how much a figure moved; 0 for what would not show."""
    moved_frac = now.value / before.value - 1.0 if before.value and now.value else 0.0
    return moved_frac if abs(moved_frac) >= TOLERANCE_FRAC else 0.0


def change_label(moved_frac: float) -> str:
    return f"{moved_frac:+.1%}".replace("%", " %").replace("-", "\u2212")


def cards_html(now: Measures, before: Measures = ()) -> str:
    """Figures as cards, each with its change where there is one to compare with: the first three large."""
    known = {one.key: one for one in before}
    cards = "".join(_card(one, known.get(one.key)) for one in now)
    return f'<dl class="cards">{cards}</dl>'


def _card(now: Measure, before: Measure | None) -> str:
    moved = _moved(now, before) if before is not None and now.key != LIMIT else ""
    if now.key == LIMIT and before is not None and _without_share(before) != _without_share(now):
        moved = f'<span class="moved">was {escape(before.shown)}</span>'
    meter = ""
    if now.share_frac >= 0:
        kind = "over" if now.share_frac > 1 else "near" if now.share_frac > FULL_FRAC else "fine"
        width = f"{min(1.0, now.share_frac):.1%}"
        meter = f'<span class="meter {kind}" aria-hidden="true"><i style="width:{width}"></i></span>'
    shown = escape(now.shown if now.key in ("rate", LIMIT) else now.shown.replace(" ", "\u00a0"))
    interval = f'<span class="interval">{unbroken(now.interval)}</span>' if now.interval else ""
    note = f'<span class="note">{unbroken(now.note)}</span>'
    return (
        f'<div data-key="{now.key}" data-value="{now.value:.9g}"><dt>{escape(now.label)}</dt>'
        f"<dd><strong>{shown}</strong>{moved}{interval}{meter}{note}</dd></div>"
    )


def unbroken(text: str) -> str:
    """No line begins with a percent sign."""
    return escape(text).replace(" %", "\u00a0%")


def _without_share(limit: Measure) -> str:
    return re.sub(r",? *[0-9.]+ %( of the step)?", "", limit.shown)


def _moved(now: Measure, before: Measure) -> str:
    moved_frac = change_frac(now, before)
    if not now.value or not before.value:
        return ""
    if not moved_frac:
        return '<span class="moved same">same</span>'
    is_better = (moved_frac < 0) == now.is_less_better
    word = "better" if is_better else "worse"
    return f'<span class="moved {word}">{change_label(moved_frac)}</span>'


def figure_label(value: float, unit: str) -> str:
    """A figure of the hardware as datasheets say it."""
    if unit == "bytes":
        return format_bytes(value)
    symbol = {"bytes_per_s": "B/s", "flop_per_s": "FLOP/s", "hz": "Hz", "w": "W"}[unit]
    if unit in ("bytes_per_s", "hz"):
        return format_rate(value, symbol, 2)
    size = float(format_rate(value, symbol, 2).split()[0])
    return format_rate(value, symbol, 2 if size < 10 else 1 if size < 100 else 0)  # three digits, as in 2.80 kW
