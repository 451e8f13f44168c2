"""Convergence: CPU seconds to come within 1 % of the best design, the exact search against the Bayesian one.

Three models and ten seeds, every design that is asked for truly scheduled; all models, algorithms and curves are in
benchmarks/results/convergence.json, which `python -m benchmarks.convergence` measures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from benchmarks.bar import Bar
from benchmarks.bar_mining import tasks
from benchmarks.convergence import (
    BUDGET,
    FEW,
    NUM_SEEDS,
    WITHIN_FRAC,
    followed,
    load_s,
    question_for,
    scheduled,
    search_of,
)
from benchmarks.convergence_table import converged, recorded
from dovetail.search.mining.task import Task

ISSUE = 6
LEAST_RATIO = 31.0  # WHAM: less time than Spotlight's, on average


def bars() -> Iterator[Bar]:
    every = {task.name: task for task in tasks()}
    best_loss(every["resnet-18"])  # compiled before it is timed
    ratios = {name: measured_ratio(every[name]) for name in FEW}
    mean = statistics.mean(ratios.values())
    whole = converged(recorded(), "bayes")
    named = ", ".join(f"{name} {ratio:.0f}" for name, ratio in ratios.items())
    yield Bar(
        name=f"CPU s to within {WITHIN_FRAC:.0%}: Bayesian search over exact, {len(ratios)} models, {NUM_SEEDS} seeds",
        issue=ISSUE,
        bar=f">= {LEAST_RATIO:.0f} times",
        measured=f"{mean:.1f} times ({named})",
        holds=mean >= LEAST_RATIO,
        note=f"recorded, {whole.num_models} models: {whole.ratio:.1f}, geometric mean {whole.geometric_ratio:.1f}",
    )


def best_loss(task: Task) -> float:
    """What the exact search proves to be the least."""
    question = question_for(task)
    return followed(search_of("exact", question, 0), scheduled(question), question.space.num_points, -math.inf).loss


def measured_ratio(task: Task) -> float:
    prepare_s, question = load_s(task), question_for(task)
    target = best_loss(task) * (1 + WITHIN_FRAC)
    exact = followed(search_of("exact", question, 0), scheduled(question), question.space.num_points, target)
    runs = [
        followed(search_of("bayes", question, seed), scheduled(question), BUDGET, target) for seed in range(NUM_SEEDS)
    ]
    spent_s = statistics.mean(run.thinking_s + run.answering_s for run in runs)
    return (prepare_s + spent_s) / (prepare_s + exact.thinking_s + exact.answering_s)
