"""What the pools of a cluster have of a plan: chips, stages, layers, and the memory of the fullest stage of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.figures import Figure, FigureList, Phrase, TextOnly, labelled, phrase
from dovetail.report.labels import counted, in_a_row, percent
from dovetail.units import format_bytes

if TYPE_CHECKING:
    from dovetail.search.planners.ranking import Choice

Result = Outcome | Infeasible


def stage_label(result: Result, stage: int) -> str:
    """A stage, and where devices are not all equal, what it is on."""
    if not isinstance(result.cluster, HeterogeneousCluster):
        return f"stage {stage}"
    pool = pool_of_stage(result.plan, result.cluster, stage)
    return f"stage {stage}, on {pool.chip.name} ({pool.name})"


def pools_list(result: Result) -> FigureList:
    """What lies on each pool of the cluster; nothing where all devices are equal."""
    return FigureList(
        key="pools",
        title="What is on which pool of the cluster" if isinstance(result.cluster, HeterogeneousCluster) else "",
        items=pool_records(result),
        figures=lambda pool: (
            labelled("name", pool["name"], "pool"),
            labelled("chip", pool["chip"], "chip"),
            Figure("num_devices", pool["num_devices"], f"{pool['num_devices']:,}", "devices"),
            phrase("{}", Figure("stages", pool["stages"], in_a_row_of(pool["stages"])), label="stages", align="r"),
            phrase(
                "{}", Figure("num_layers", pool["num_layers"], in_a_row(pool["num_layers"])), label="layers", align="r"
            ),
            _fullest(result, pool["stages"]),
        ),
    )


def _fullest(result: Result, stages: list[int]) -> Phrase:
    use = result.memory
    held = [one for one in use.stages if one.stage in stages]
    need_bytes = max(float(one.reserved_bytes) for one in held) + use.runtime_bytes
    limit_bytes = use.limits_bytes[held[0].stage]
    return phrase(
        "{} of {} usable",
        TextOnly("need_bytes of a pool", format_bytes(need_bytes)),
        Figure(f"memory.stages[{held[0].stage}].limit_bytes", limit_bytes, format_bytes(limit_bytes)),
        label="fullest device",
        align="r",
    )


def in_a_row_of(stages: list[int]) -> str:
    """Stages, neighbours together: 0-3, 6."""
    starts = [stage for stage in stages if stage - 1 not in stages]
    ends = [stage for stage in stages if stage + 1 not in stages]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def pool_records(result: Result) -> list[dict[str, Any]]:
    """The pools as JSON; none where all devices are equal."""
    cluster, plan = result.cluster, result.plan
    if not isinstance(cluster, HeterogeneousCluster):
        return []
    num_layers = layers_per_stage(result.workload.model.forward(result.workload.sample).num_layers, plan)
    found = []
    for index, pool in enumerate(cluster.pools):
        stages = stages_on(plan, index)
        layers = [num_layers[stage] for stage in stages]
        names = {"name": pool.name, "chip": pool.chip.name, "num_devices": pool.num_devices}
        found.append({**names, "stages": stages, "num_layers": layers})
    return found


def pool_sentences(result: Result) -> tuple[str, ...]:
    """Which stages are on which pool; nothing where all devices are equal."""
    said = [f"{in_a_row_of(pool['stages'])} on {pool['name']}" for pool in pool_records(result)]
    return (f"stages of the best plan: {'; '.join(said)}",) if said else ()


def stages_on(plan: Plan, pool: int) -> list[int]:
    return [stage for stage, there in enumerate(plan.stage_pools) if there == pool]


def proof_counts(found: Choice) -> tuple[Figure, Figure, Figure, Figure]:
    """Combinations in all, ruled out by a bound, looked at whole, and still open."""
    made = found.proof
    counts = (made.num_bases, made.num_pruned, made.num_closed, made.num_open)
    names = ("num_bases", "num_pruned", "num_closed", "num_open")
    bases, away, closed, still = (
        Figure(f"proof.{name}", count, f"{count:,}") for name, count in zip(names, counts, strict=True)
    )
    return bases, away, closed, still


def proof_on_pools(found: Choice) -> tuple[Phrase, Phrase]:
    """How many combinations there were, and how good the best is known to be."""
    bases, *rest = proof_counts(found)
    counts = phrase(
        "{} of degrees and order of the pools, with layers and recompute by stage left open: {} cannot be better by a"
        " bound, of {} every cut that could be was looked at, {} are still open",
        replace(bases, text=counted(found.proof.num_bases, "combination")),
        *rest,
    )
    space = "of all plans in which each pool is one stretch of the pipeline"
    gap = Figure("gap_frac", found.gap_frac, "0" if found.gap_frac <= 0 else percent(found.gap_frac, 2))
    if found.gap_frac <= 0:
        return counts, phrase("optimal in the model {} (gap {})", space, gap)
    return counts, phrase("none {} is ahead by more than {} (gap)", space, gap)
