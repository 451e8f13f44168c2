"""What benchmarks/results/convergence.json says: ratios to the exact search, and the table of docs/model/mining.md."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.convergence import BASELINES, OURS, RESULTS

Results = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Converged:
    """An algorithm over models: means over seeds, then over models; ratios are to the exact search, model by model."""

    name: str
    num_models: int
    num_reached: int
    num_runs: int
    num_evaluated: float
    cpu_s: float
    thinking_frac: float
    ratios: tuple[float, ...]
    evaluated_ratios: tuple[float, ...]
    unthinking_ratios: tuple[float, ...]  # were the algorithm's own thinking free

    @property
    def ratio(self) -> float:
        return statistics.mean(self.ratios)

    @property
    def geometric_ratio(self) -> float:
        return math.exp(statistics.mean(map(math.log, self.ratios)))


def recorded() -> Results:
    found: Results = json.loads(RESULTS.read_text())
    return found


def converged(results: Results, name: str) -> Converged:
    """`name` over all models that it was run for. A run that ended without reaching counts as what it spent."""
    chosen = [model for model in results["models"].values() if name in model["searches"]]
    runs = [run for model in chosen for run in model["searches"][name]]

    def ratios(amount: Callable[[dict[str, Any]], float], exact: str) -> tuple[float, ...]:
        return tuple(
            statistics.mean(map(amount, model["searches"][name])) / model["searches"]["exact"][0][exact]
            for model in chosen
        )

    return Converged(
        name=name,
        num_models=len(chosen),
        num_reached=sum(run["is_reached"] for run in runs),
        num_runs=len(runs),
        num_evaluated=_mean_of_means(chosen, name, "num_evaluated"),
        cpu_s=_mean_of_means(chosen, name, "cpu_s"),
        thinking_frac=sum(run["thinking_s"] for run in runs) / sum(run["cpu_s"] for run in runs),
        ratios=ratios(lambda run: run["cpu_s"], "cpu_s"),
        evaluated_ratios=ratios(lambda run: run["num_evaluated"], "num_evaluated"),
        unthinking_ratios=ratios(lambda run: run["cpu_s"] - run["thinking_s"], "cpu_s"),
    )


def _mean_of_means(models: list[Results], name: str, key: str) -> float:
    return float(statistics.mean(statistics.mean(run[key] for run in model["searches"][name]) for model in models))


def names_in(results: Results) -> list[str]:
    return [name for name in (*OURS, *BASELINES) if any(name in m["searches"] for m in results["models"].values())]


def table(results: Results) -> str:
    """Algorithms by what they need, in Markdown."""
    return "\n".join(_rows(results)) + "\n"


def _rows(results: Results) -> Iterator[str]:
    yield "| search | models | reached | evaluations | CPU s | of it thinking | CPU s over exact's | thinking free |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in names_in(results):
        one = converged(results, name)
        yield (
            f"| `{name}` | {one.num_models} | {one.num_reached} of {one.num_runs} | {one.num_evaluated:.0f} "
            f"| {one.cpu_s:.2f} | {one.thinking_frac:.0%} | {one.ratio:.1f} ({one.geometric_ratio:.1f}) "
            f"| {statistics.mean(one.unthinking_ratios):.1f} |"
        )


def model_table(results: Results) -> str:
    """The exact and the Bayesian search model by model, in Markdown."""
    lines = [
        "| model | designs within 1 % | exact: evaluations | CPU s | proof: evaluations | CPU s "
        "| bayes: evaluations | CPU s | over exact's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    bayes = converged(results, "bayes")
    for (name, model), ratio in zip(results["models"].items(), bayes.ratios, strict=True):
        [exact], runs, proof = model["searches"]["exact"], model["searches"]["bayes"], model["proof"]
        lines.append(
            f"| {name} | {model['num_near']} | {exact['num_evaluated']} | {exact['cpu_s']:.2f} "
            f"| {proof['num_evaluated']} | {proof['cpu_s']:.2f} "
            f"| {statistics.mean(run['num_evaluated'] for run in runs):.0f} "
            f"| {statistics.mean(run['cpu_s'] for run in runs):.2f} | {ratio:.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(recorded()), model_table(recorded()), sep="\n")
