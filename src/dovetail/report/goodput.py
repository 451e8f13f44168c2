"""What a run of many steps comes to on a cluster that fails, as rows and as plain data."""

from __future__ import annotations

import math
from typing import Any

from dovetail.evaluate import Outcome
from dovetail.report.labels import counted, number, percent
from dovetail.step.goodput import MIN_USEFUL_FRAC, Goodput, young_s
from dovetail.units import format_bytes, format_count, format_duration

Rows = tuple[tuple[str, str], ...]
SHOWN_FRAC = 0.0005  # what would show as 0.0 % is left out


def goodput_rows(outcome: Outcome) -> Rows:
    """Nothing where nothing is known of failures."""
    found = outcome.goodput
    if not isinstance(found, Goodput):
        return ()
    return (("goodput", _share(outcome, found)), ("checkpoints", _checkpoints(found)))


def _share(outcome: Outcome, found: Goodput) -> str:
    sample = outcome.workload.model.sample
    per_s = outcome.tokens_per_s if sample == "tokens" else outcome.samples_per_s
    words = f"{percent(found.useful_frac)} of the time is of use, {number(found.useful_frac * per_s)} {sample}/s"
    if not found.makes_progress:
        words = f"0 % of the time is of use: this job never gets on; {_way_out(found)}"
    lost = [f"{percent(share)} {what}" for what, share in _losses(found) if share >= SHOWN_FRAC]
    return f"{words}; lost: {', '.join(lost)}" if lost else words


def _way_out(found: Goodput) -> str:
    """What keeps a job from getting on, and what would help."""
    if found.best_frac >= MIN_USEFUL_FRAC:
        every = counted(found.best_num_steps, "step")
        return f"checkpoints come too rarely, and after every {every} they would leave {percent(found.best_frac)}"
    if found.replace_frac >= max(found.restart_frac, found.rework_frac):
        return "devices turn slow more often than they can be replaced; give onsets a longer mtbf, or leave them out"
    recovery = found.recovery
    cycle_s = found.interval_s + recovery.write_s
    return (
        f"it fails every {format_duration(recovery.mtbf_s)}, and needs {format_duration(cycle_s)} from checkpoint to"
        f" checkpoint and {format_duration(recovery.restart_s)} to restart; a longer mtbf, shorter intervals or faster"
        " storage would help"
    )


def _losses(found: Goodput) -> list[tuple[str, float]]:
    """Most lost first."""
    losses = [
        ("to checkpoints", found.checkpoint_frac),
        ("to work done again", found.rework_frac),
        ("to restarts", found.restart_frac),
        ("to slow devices", found.slow_frac),
        ("to replacing slow devices", found.replace_frac),
    ]
    return sorted(losses, key=lambda loss: -loss[1])


def _checkpoints(found: Goodput) -> str:
    recovery = found.recovery
    beside = f", then {format_duration(recovery.write_s)} beside compute" if recovery.write_s else ""
    taking = f"{format_bytes(found.checkpoint_bytes)} in {format_duration(recovery.stall_s)}{beside}"
    every = f"every {format_duration(found.interval_s)} ({counted(found.num_steps, 'step')}, {_judged(found)})"
    failing = f"a failure every {format_duration(recovery.mtbf_s)}, {format_duration(recovery.restart_s)} to restart"
    return f"{taking}, {every}; {failing}"


def _judged(found: Goodput) -> str:
    if found.num_steps == found.best_num_steps:
        return "the best"
    return f"best {found.best_num_steps:,}: {percent(found.best_frac)}"


def budget_steps(outcome: Outcome, num_tokens: float) -> int:
    """Whole steps that `num_tokens` take; the last one may be of fewer."""
    return math.ceil(num_tokens / outcome.tokens_per_step)


def budget_rows(outcome: Outcome, num_tokens: float) -> Rows:
    """How long `num_tokens` take, failures counted where they are known."""
    if not num_tokens:
        return ()
    ideal_s = budget_steps(outcome, num_tokens) * outcome.step.step_s
    label, found = f"{format_count(num_tokens)} tokens", outcome.goodput
    if not isinstance(found, Goodput):
        return ((label, f"{format_duration(ideal_s)} without failures, of which this cluster says nothing"),)
    if not found.makes_progress:
        return ((label, f"never: this job does not get on; {format_duration(ideal_s)} if nothing failed"),)
    expected_s = ideal_s / found.useful_frac
    return ((label, f"{format_duration(expected_s)} expected, {format_duration(ideal_s)} if nothing failed"),)


def goodput_record(outcome: Outcome) -> dict[str, Any]:
    """Nothing where nothing is known of failures."""
    found = outcome.goodput
    if not isinstance(found, Goodput):
        return {}
    recovery = found.recovery
    is_of_tokens = outcome.workload.model.sample == "tokens"
    return {
        "goodput": {
            "useful_frac": found.useful_frac,
            "checkpoint_frac": found.checkpoint_frac,
            "rework_frac": found.rework_frac,
            "restart_frac": found.restart_frac,
            "slow_frac": found.slow_frac,
            "replace_frac": found.replace_frac,
            "makes_progress": found.makes_progress,
            "samples_per_s": found.useful_frac * outcome.samples_per_s,
            **({"tokens_per_s": found.useful_frac * outcome.tokens_per_s} if is_of_tokens else {}),
            "slowed_step_s": found.slowed_step_s,
            "mtbf_s": recovery.mtbf_s,
            "restart_s": recovery.restart_s,
            "checkpoint_bytes": found.checkpoint_bytes,
            "stall_s": recovery.stall_s,
            "write_s": recovery.write_s,
            "interval_s": found.interval_s,
            "num_steps": found.num_steps,
            "best_num_steps": found.best_num_steps,
            "best_frac": found.best_frac,
            "young_s": young_s(recovery),
        }
    }


def budget_record(outcome: Outcome, num_tokens: float) -> dict[str, Any]:
    """How long `num_tokens` take; `expected_s` only where failures are known and the job gets on."""
    if not num_tokens:
        return {}
    num_steps, found = budget_steps(outcome, num_tokens), outcome.goodput
    ideal_s = num_steps * float(outcome.step.step_s)
    expected = (
        {"expected_s": ideal_s / found.useful_frac} if isinstance(found, Goodput) and found.makes_progress else {}
    )
    return {"budget": {"num_tokens": num_tokens, "num_steps": num_steps, "ideal_s": ideal_s, **expected}}
