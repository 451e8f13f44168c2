"""What a run of many steps comes to on a cluster that fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.evaluate import Outcome
from dovetail.report.figures import Entry, Figure, FigureRow, Part, Phrase, TextOnly, joined, labelled, phrase
from dovetail.report.labels import counted, number, percent
from dovetail.step.goodput import MIN_USEFUL_FRAC, Goodput, young_s
from dovetail.units import KILO, MEGA, SECONDS_PER_HOUR, format_bytes, format_count, format_duration, format_usd

SHOWN_FRAC = 0.0005  # what would show as 0.0 % is left out


def goodput_rows(outcome: Outcome) -> Iterator[Entry]:
    """Nothing where nothing is known of failures."""
    found = outcome.goodput
    if not isinstance(found, Goodput):
        return
    yield _share(outcome, found)
    yield _checkpoints(found)
    yield Figure("goodput.useful_frac", found.useful_frac)
    yield Figure("goodput.makes_progress", found.makes_progress)
    yield Figure("goodput.samples_per_s", found.useful_frac * outcome.samples_per_s)
    if outcome.workload.model.sample == "tokens":
        yield Figure("goodput.tokens_per_s", found.useful_frac * outcome.tokens_per_s)
    yield Figure("goodput.slowed_step_s", found.slowed_step_s)
    yield Figure("goodput.best_num_steps", found.best_num_steps)
    yield Figure("goodput.best_frac", found.best_frac)
    yield Figure("goodput.write_s", found.recovery.write_s)
    yield Figure("goodput.young_s", young_s(found.recovery))
    for _, lost in _losses(found):
        yield lost


def _share(outcome: Outcome, found: Goodput) -> Phrase:
    sample = outcome.workload.model.sample
    noun, per_s = ("tokens", outcome.tokens_per_s) if sample == "tokens" else ("samples", outcome.samples_per_s)
    useful_per_s = found.useful_frac * per_s
    said: Part = phrase(
        "{} of the time is of use, {} {}/s",
        Figure("goodput.useful_frac", found.useful_frac, percent(found.useful_frac)),
        Figure(f"goodput.{noun}_per_s", useful_per_s, number(useful_per_s)),
        labelled("workload.sample", sample),
    )
    if not found.makes_progress:
        said = phrase(
            "{} of the time is of use: this job never gets on; {}",
            TextOnly("no share", "0 %"),
            _way_out(found),
        )
    lost = [phrase("{} {}", share, what) for what, share in _losses(found) if share.value >= SHOWN_FRAC]
    return phrase("{}{}", said, phrase("; lost: {}", joined(", ", lost)) if lost else "", label="goodput")


def _way_out(found: Goodput) -> Part:
    """What keeps a job from getting on, and what would help."""
    if found.best_frac >= MIN_USEFUL_FRAC:
        return phrase(
            "checkpoints come too rarely, and after every {} they would leave {}",
            Figure("goodput.best_num_steps", found.best_num_steps, counted(found.best_num_steps, "step")),
            Figure("goodput.best_frac", found.best_frac, percent(found.best_frac)),
        )
    if found.replace_frac >= max(found.restart_frac, found.rework_frac):
        return "devices turn slow more often than they can be replaced; give onsets a longer mtbf, or leave them out"
    recovery = found.recovery
    cycle_s = found.interval_s + recovery.write_s
    return phrase(
        "it fails every {}, and needs {} from checkpoint to checkpoint and {} to restart; a longer mtbf, shorter"
        " intervals or faster storage would help",
        Figure("goodput.mtbf_s", recovery.mtbf_s, format_duration(recovery.mtbf_s)),
        TextOnly("interval_s and write_s", format_duration(cycle_s)),
        Figure("goodput.restart_s", recovery.restart_s, format_duration(recovery.restart_s)),
    )


def _losses(found: Goodput) -> list[tuple[str, Figure]]:
    """Most lost first."""
    losses = [
        ("to checkpoints", "checkpoint_frac"),
        ("to work done again", "rework_frac"),
        ("to restarts", "restart_frac"),
        ("to slow devices", "slow_frac"),
        ("to replacing slow devices", "replace_frac"),
    ]
    shares = ((what, key, getattr(found, key)) for what, key in losses)
    figures = [(what, Figure(f"goodput.{key}", share, percent(share))) for what, key, share in shares]
    return sorted(figures, key=lambda loss: -loss[1].value)


def _checkpoints(found: Goodput) -> Phrase:
    recovery = found.recovery
    write = Figure("goodput.write_s", recovery.write_s, format_duration(recovery.write_s))
    judged: Part = "the best"
    if found.num_steps != found.best_num_steps:
        judged = phrase(
            "best {}: {}",
            Figure("goodput.best_num_steps", found.best_num_steps, f"{found.best_num_steps:,}"),
            Figure("goodput.best_frac", found.best_frac, percent(found.best_frac)),
        )
    return phrase(
        "{} in {}{}, every {} ({}, {}); a failure every {}, {} to restart",
        Figure("goodput.checkpoint_bytes", found.checkpoint_bytes, format_bytes(found.checkpoint_bytes)),
        Figure("goodput.stall_s", recovery.stall_s, format_duration(recovery.stall_s)),
        phrase(", then {} beside compute", write) if recovery.write_s else "",
        Figure("goodput.interval_s", found.interval_s, format_duration(found.interval_s)),
        Figure("goodput.num_steps", found.num_steps, counted(found.num_steps, "step")),
        judged,
        Figure("goodput.mtbf_s", recovery.mtbf_s, format_duration(recovery.mtbf_s)),
        Figure("goodput.restart_s", recovery.restart_s, format_duration(recovery.restart_s)),
        label="checkpoints",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is asked of a whole run: tokens to train on, and what a device costs; 0 where nothing is said."""

    num_tokens: float = 0.0
    device_usd_per_s: float = 0.0


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How long a budget's tokens take and what they cost: if nothing fails, and as expected where failures are known.

    Costs are 0 without a price; `expected_s` is `ideal_s` where nothing is known of failures.
    """

    num_steps: int
    ideal_s: float
    expected_s: float
    ideal_usd: float
    expected_usd: float


def step_usd(outcome: Outcome, budget: Budget) -> float:
    """What one step of all devices costs."""
    return float(outcome.step.step_s) * outcome.cluster.num_devices * budget.device_usd_per_s


def budget_steps(outcome: Outcome, num_tokens: float) -> int:
    """Whole steps that `num_tokens` take; the last one may be of fewer."""
    return math.ceil(num_tokens / outcome.tokens_per_step)


def run_of(outcome: Outcome, budget: Budget) -> Run | None:
    """What the tokens of `budget` take; nothing where none are said, or the job never gets on."""
    found = outcome.goodput
    if not budget.num_tokens or (isinstance(found, Goodput) and not found.makes_progress):
        return None
    num_steps = budget_steps(outcome, budget.num_tokens)
    ideal_s = num_steps * float(outcome.step.step_s)
    expected_s = ideal_s / found.useful_frac if isinstance(found, Goodput) else ideal_s
    usd_per_s = outcome.cluster.num_devices * budget.device_usd_per_s
    return Run(
        num_steps=num_steps,
        ideal_s=ideal_s,
        expected_s=expected_s,
        ideal_usd=ideal_s * usd_per_s,
        expected_usd=expected_s * usd_per_s,
    )


def price_rows(outcome: Outcome, budget: Budget) -> Iterator[Entry]:
    """What a step and a million of its tokens, or a thousand samples, cost; nothing without a price."""
    if not budget.device_usd_per_s:
        return
    usd, sample = step_usd(outcome, budget), outcome.workload.model.sample
    each_usd, many, noun = usd / outcome.tokens_per_step, MEGA, "million tokens"
    if sample != "tokens":
        each_usd, many, noun = usd / outcome.workload.global_batch, KILO, f"thousand {sample}"
    hour_usd = budget.device_usd_per_s * SECONDS_PER_HOUR
    yield phrase(
        "{} per step, {} per {} at {} per device and hour",
        Figure("price.step_usd", usd, format_usd(usd)),
        TextOnly("price of many", format_usd(many * each_usd)),
        noun,
        Figure("price.device_usd_per_s", budget.device_usd_per_s, format_usd(hour_usd)),
        label="price",
    )
    yield Figure("price.token_usd" if sample == "tokens" else "price.sample_usd", each_usd)


def budget_rows(outcome: Outcome, budget: Budget) -> Iterator[Entry]:
    """How long the tokens take and what they cost, failures counted where they are known and the job gets on."""
    if not budget.num_tokens:
        return
    num_steps, run = budget_steps(outcome, budget.num_tokens), run_of(outcome, budget)
    ideal_s = num_steps * float(outcome.step.step_s)
    ideal = Figure("budget.ideal_s", ideal_s, format_duration(ideal_s))
    took = phrase("{} if nothing fails; no failure rate is known for this cluster", ideal)
    if run and isinstance(outcome.goodput, Goodput):
        expected = Figure("budget.expected_s", run.expected_s, format_duration(run.expected_s))
        took = phrase("{} expected, {} if nothing failed", expected, ideal)
    elif run is None:
        took = phrase("never: this job does not get on; {} if nothing failed", ideal)
    if run and run.ideal_usd:
        key = "expected_usd" if isinstance(outcome.goodput, Goodput) else "ideal_usd"
        usd = getattr(run, key)
        took = phrase("{}, {}", Figure(f"budget.{key}", usd, format_usd(usd)), took)
        yield Figure("budget.ideal_usd", run.ideal_usd)
    tokens = Figure("budget.num_tokens", budget.num_tokens, format_count(budget.num_tokens))
    yield FigureRow((phrase("{} tokens", tokens), took))
    yield Figure("budget.num_steps", num_steps)
