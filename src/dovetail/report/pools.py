"""What the pools of a cluster have of a plan: chips, stages, layers, and the memory of the fullest stage of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.labels import counted, in_a_row, percent
from dovetail.report.table import Table
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


def pool_tables(result: Result) -> tuple[Table, ...]:
    """A row a pool; nothing where all devices are equal."""
    if not isinstance(result.cluster, HeterogeneousCluster):
        return ()
    use, rows = result.memory, []
    for said in pool_records(result):
        held = [one for one in use.stages if one.stage in said["stages"]]
        need_bytes = max(float(one.reserved_bytes) for one in held) + use.runtime_bytes
        memory = f"{format_bytes(need_bytes)} of {format_bytes(use.limits_bytes[held[0].stage])} usable"
        figures = (f"{said['num_devices']:,}", in_a_row_of(said["stages"]), in_a_row(said["num_layers"]), memory)
        rows.append((said["name"], said["chip"], *figures))
    return (
        Table(
            title="What is on which pool of the cluster",
            columns=("pool", "chip", "devices", "stages", "layers", "fullest device"),
            rows=tuple(rows),
            align="llrrrr",
        ),
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


def proof_on_pools(found: Choice) -> tuple[str, ...]:
    """How many combinations there were, and how good the best is known to be."""
    made = found.proof
    counts = (
        f"{counted(made.num_bases, 'combination')} of degrees and order of the pools, with layers and recompute by"
        f" stage left open: {made.num_pruned:,} cannot be better by a bound, of {made.num_closed:,} every cut"
        f" that could be was looked at, {made.num_open:,} are still open"
    )
    space = "of all plans in which each pool is one stretch of the pipeline"
    if found.gap_frac <= 0:
        return (counts, f"proven best {space} (gap 0)")
    return (counts, f"none {space} is ahead by more than {percent(found.gap_frac, 2)} (gap)")
