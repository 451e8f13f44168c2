"""Chip, plan, topology and endpoint searched together beside each by itself: `python -m benchmarks.joint_gains`.

Eight models on 64 devices that may cost no more than 64 TPU v4 do. The start is a TPU v4 whose copy engines move its
collectives, in a torus, with a plan by rule of thumb. Of each search the gain over that start is told, and how far a
proof leaves it open. `--record` keeps the table under benchmarks/results; the bar and docs/model/codesign.md show it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.stamp import result_file, stamp
from dovetail.cost.engines import with_endpoint
from dovetail.hardware.catalog import chips
from dovetail.hardware.die import RETICLE_MM2
from dovetail.hardware.endpoints import endpoint_named
from dovetail.report.codesigned import system_in_brief
from dovetail.search.codesign.answers import answer_of, only_plan, pinned, thumb_plans
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.networks import network_kind
from dovetail.search.codesign.presets import PLANS
from dovetail.search.codesign.question import Budget, Case, JointQuestion, base_budget, system_space
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import system_of
from dovetail.search.metrics import metrics
from dovetail.units import PERCENT
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

WHAT = "joint-gains"
NUM_DEVICES = 64
GLOBAL_BATCH = {
    "bert-large": 1024,
    "gpt2-1.5b": 512,
    "gpt2-8.3b": 256,
    "gemma-3-4b": 128,
    "llama2-7b": 128,
    "llama3-8b": 128,
    "mixtral-8x7b": 128,
    "vit-l-16": 4096,
}
START_ENDPOINT = "dma"
CHIP = {
    "num_tensor": (4, 8, 16),
    "num_rows": (64, 128),
    "num_cols": (64, 128),
    "num_lanes": (512, 1024),
    "sram_mib": (64, 128),
    "hbm_stacks": (4, 6),
    "stack_gib": (8, 16),
}
TOPOLOGY: Mapping[str, tuple[float, ...]] = {
    "link_gb_per_s": (135.0, 270.0),
    "network": tuple(float(network_kind(name).code) for name in ("torus", "switch")),
}
ENDPOINT = {"endpoint": tuple(endpoint_named(name).code for name in ("dma", "ace", "in-switch", "near-memory"))}
# Knobs that each search by itself chooses; the plan is the rule of thumb's but where plans are searched.
ALONE: Mapping[str, Mapping[str, Sequence[float]]] = {
    "chip": CHIP,
    "plan": {},
    "topology": TOPOLOGY,
    "endpoint": ENDPOINT,
}
COSTS = {"dollars and watts": ("total_usd", "total_power_w"), "watts": ("total_power_w",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one search came to: tokens or samples per second, the system, and how far it is from proven."""

    rate: float
    gap_frac: float
    system: str


def question(model: str, values: Mapping[str, Sequence[float]], budget: Budget) -> JointQuestion:
    base = with_endpoint(chips["tpu-v4"](), START_ENDPOINT)
    catalogued = models[model]()
    workload = Workload(model=catalogued, global_batch=GLOBAL_BATCH[model], seq=catalogued.seq)
    start = {"network": TOPOLOGY["network"][:1], "link_gb_per_s": (system_of(base, NUM_DEVICES)["link_gb_per_s"],)}
    return JointQuestion(
        cases=(Case(workload=workload, plans=PLANS),),
        base=base,
        network=network_kind("torus").build,
        space=system_space(base, NUM_DEVICES, {**start, **values}),
        budget=budget,
        metric=metrics["throughput"],
        reference_losses=(1.0,),
    )


def equal_cost(limits: Sequence[str]) -> Budget:
    """What the start takes of `limits`, and dies that a scanner can expose."""
    start = question("gpt2-1.5b", {}, Budget())
    taken = base_budget(start.base, start.space)
    return Budget(area_mm2=RETICLE_MM2, **{name: getattr(taken, name) for name in limits})


def searched(scorer: Scorer) -> Found | None:
    found = joint_search(scorer, local_backend(scorer))
    if found is None:
        return None
    answer = answer_of(scorer.question, found.best)
    [case], [own] = scorer.question.cases, answer.cases
    return Found(
        rate=case.workload.training_graph().num_tokens / own.step_s,
        gap_frac=found.gap_frac,
        system=system_in_brief(answer.system),
    )


def gains(model: str, limits: Sequence[str]) -> dict[str, Any]:
    """Of every search over the start, at equal cost."""
    budget = equal_cost(limits)
    whole = question(model, {**CHIP, **TOPOLOGY, **ENDPOINT}, budget)
    [thumb] = thumb_plans(whole, NUM_DEVICES)
    by_thumb = (only_plan(thumb, PLANS),)
    scorer = Scorer(whole)
    joint = searched(scorer)
    start = searched(Scorer(pinned(question(model, {}, Budget()), by_thumb)))
    assert joint is not None, f"{model} fits no system"
    assert start is not None, f"{model} does not fit the start"
    alone = {}
    for name, values in ALONE.items():
        asked = question(model, values, budget)
        alone[name] = searched(Scorer(asked if name == "plan" else pinned(asked, by_thumb)))
    rates = {name: 0.0 if found is None else found.rate for name, found in alone.items()}
    best = max(rates, key=lambda name: rates[name])
    return {
        "model": model,
        "start_per_s": start.rate,
        **{f"{name}_gain_frac": rate / start.rate - 1.0 if rate else None for name, rate in rates.items()},
        "best_alone": best,
        "joint_gain_frac": joint.rate / start.rate - 1.0,
        "joint_over_best_alone_frac": joint.rate / rates[best] - 1.0,
        "gap_frac": joint.gap_frac,
        "system": joint.system,
    }


def table(result: Mapping[str, Any]) -> str:
    """As docs/model/codesign.md shows it."""
    lines = []
    for cost, rows in result["costs"].items():
        lines += [
            f"Equal {cost}:",
            "",
            "| model | chip | plan | topology | endpoint | joint | joint over the best alone | gap | system |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for row in rows:
            own = [row[f"{name}_gain_frac"] for name in ALONE]
            cells = ["-" if gain is None else f"{PERCENT * gain:+.1f} %" for gain in (*own, row["joint_gain_frac"])]
            over = f"{PERCENT * row['joint_over_best_alone_frac']:+.1f} % ({row['best_alone']})"
            gap = f"{PERCENT * row['gap_frac']:.1f} %"
            lines.append(f"| {' | '.join((row['model'], *cells, over, gap, row['system']))} |")
        lines.append("")
    return "\n".join(lines)


def measured() -> dict[str, Any]:
    began_s = time.process_time()
    costs = {cost: [gains(model, limits) for model in GLOBAL_BATCH] for cost, limits in COSTS.items()}
    return {**stamp(), "cpu_s": time.process_time() - began_s, "num_devices": NUM_DEVICES, "costs": costs}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.joint_gains", description="joint search beside each alone"
    )
    parser.add_argument("--record", action="store_true", help="keep the result under benchmarks/results, for the bars")
    options = parser.parse_args(arguments)
    result = measured()
    if options.record:
        result_file(WHAT).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(table(result))
    print(f"{result['cpu_s']:.0f} CPU-s")


if __name__ == "__main__":
    main()
