"""A row of published runs as a job that can be timed, or the reason why it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.accuracy.measurements import shown
from dovetail.accuracy.runs.machines import cluster_of
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.shapes import model_of
from dovetail.accuracy.runs.stacks import Stack, stack_of
from dovetail.errors import NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.placement import nested
from dovetail.parallel.plan import Plan
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer

# Columns in which the runs of a group agree: what is left to differ is the plan, and the software.
GROUPED_BY = ("source", "model", "layers", "hidden", "heads", "seq", "gpu", "n_gpus", "global_batch", "precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One published run: what ran, where, how it was cut, and how long a step took."""

    name: str
    publisher: str
    group: str  # runs of one model on one cluster with one batch differ by their plan alone
    model: Transformer
    sample: Sample
    precision: Precision
    cluster: Cluster
    plan: Plan
    measured_s: float
    tells_memory: bool = True

    @property
    def setting(self) -> tuple[Transformer, Sample, Precision, Cluster, str]:
        """All but the plan, and the plan's framework: what runs that are timed together share."""
        return self.model, self.sample, self.precision, self.cluster, self.plan.framework


def run_of(row: Row) -> PublishedRun:
    """The job of a row; `NotModelled` says why there is none."""
    if row.lacking:
        raise NotModelled(f"incomplete: {', '.join(row.lacking)} not given")
    if row.says("notes", "LoRA"):
        raise NotModelled("low-rank adapters whose rank and targets are not given")
    stack = stack_of(row)
    plan = plan_of(row, stack)
    sample = Sample(
        batch=row.count("global_batch"),
        seq=row.count("seq"),
        dtype=stack.precision.storage,
        attention=stack.attention,
        kernels=stack.kernels,
        has_wide_residual=stack.has_wide_residual,
        has_fused_loss=stack.has_fused_loss,
    )
    cluster = cluster_of(row)
    return PublishedRun(
        name=row.word("row_id"),
        publisher=row.publisher,
        group="|".join(row.word(column) for column in GROUPED_BY),
        model=model_of(row),
        sample=sample,
        precision=stack.precision,
        cluster=cluster,
        plan=nested(plan, cluster.topology),
        measured_s=row.measured_s,
        tells_memory=row.tells_memory,
    )


def plan_of(row: Row, stack: Stack) -> Plan:
    tp, pp, cp, ep = (row.count(column, 1) for column in ("TP", "PP", "CP", "EP"))
    dp = row.count("DP") or max(1, row.count("n_gpus") // (tp * pp * cp))
    given = row.word("seq_parallel")
    has_sequence = given == "True" if given else stack.has_sequence_parallel
    num_microbatches = row.count("global_batch") // (dp * row.count("micro_batch"))
    interleave = row.count("virtual_stages", 1) if pp > 1 else 1
    if interleave == 1 and pp > 1 and "interleaved" in row.word("pp_schedule").lower():
        interleave = 2  # the fewest chunks that the schedule has
    if num_microbatches % pp or row.count("layers") % (pp * interleave):
        interleave = _fitting(interleave, row.count("layers"), pp, num_microbatches)
    return Plan(
        tensor_parallel=tp,
        sequence_parallel=has_sequence and tp > 1,
        context_parallel=cp,
        pipeline_parallel=pp,
        interleave=interleave,
        data_parallel=dp,
        expert_parallel=ep,
        dispatcher=stack.dispatcher,
        zero_stage=_zero_stage(row, stack),
        microbatch=row.count("micro_batch"),
        recompute=(_recompute(row, stack),),
        overlap=stack.overlap,
        framework=stack.framework,
    )


def _fitting(interleave: int, num_layers: int, pp: int, num_microbatches: int) -> int:
    """The interleave, or none where microbatches do not come in rounds of stages, or layers are too few."""
    if num_microbatches % pp:
        return 1
    return min(interleave, max(1, num_layers // pp))


def _zero_stage(row: Row, stack: Stack) -> int:
    given = row.word("zero_stage")[:1]
    if "SHARD_GRAD_OP" in row.word("notes"):
        return 2
    if given and given not in "0123":
        raise NotModelled(f"zero_stage is {shown(row.word('zero_stage'))}, not 0 to 3")
    return int(given) if given else stack.zero_stage


def _recompute(row: Row, stack: Stack) -> str:
    given = row.word("recompute").split(" ")[0]
    if given == "selective" and row.says("framework", "torchtitan"):
        return "selective-op"  # its selective policy keeps every other product
    return given or stack.recompute
