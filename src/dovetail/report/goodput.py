"""What a run of many steps comes to on a cluster that fails, as rows and as plain data."""

from __future__ import annotations

from typing import Any

from dovetail.evaluate import Outcome
from dovetail.report.words import counted, number, percent
from dovetail.schedule.goodput import Goodput, young_s
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
    lost = [f"{percent(share)} {what}" for what, share in _losses(found) if share >= SHOWN_FRAC]
    return f"{words}; lost: {', '.join(lost)}" if lost else words


def _losses(found: Goodput) -> list[tuple[str, float]]:
    """Most lost first."""
    losses = [
        ("to checkpoints", found.checkpoint_frac),
        ("to work done again", found.rework_frac),
        ("to restarts", found.restart_frac),
        ("to slow devices", found.slow_frac),
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


def budget_rows(outcome: Outcome, num_tokens: float) -> Rows:
    """How long `num_tokens` take, failures counted where they are known."""
    if not num_tokens:
        return ()
    ideal_s = num_tokens / outcome.tokens_per_s
    label, found = f"{format_count(num_tokens)} tokens", outcome.goodput
    if not isinstance(found, Goodput):
        return ((label, f"{format_duration(ideal_s)} without failures, of which this cluster says nothing"),)
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
    """How long `num_tokens` take; `expected_s` only where failures are known."""
    if not num_tokens:
        return {}
    ideal_s, found = num_tokens / outcome.tokens_per_s, outcome.goodput
    expected = {"expected_s": ideal_s / found.useful_frac} if isinstance(found, Goodput) else {}
    return {"budget": {"num_tokens": num_tokens, "ideal_s": ideal_s, **expected}}
