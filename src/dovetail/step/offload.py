"""Time of what a plan offloads to the host: copies of activations in both passes, and the optimizer's update there.

Copy engines take no compute, and the two directions of the link do not share bandwidth. What a pass cannot hide is
exposed. The update on the host is bound by the host's memory (Ren et al., ZeRO-Offload, arXiv:2101.06840).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.host import Host
from dovetail.parallel.layout import AS_PLANNED, StageGroup
from dovetail.parallel.memory import memory_table
from dovetail.parallel.plan import Plan, Plans
from dovetail.parallel.sharding import ShardedPlans
from dovetail.step.stage_columns import StageColumns, held_elements
from dovetail.step.work_table import WorkTable
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision

# Of the host's memory bandwidth: 10 G parameters at 30 bytes in 2.57 s on 256 GB/s, two Xeon 8168 of a DGX-2
# (ZeRO-Offload, arXiv:2101.06840, table of CPU-Adam, recalled).
UPDATE_FRAC = 0.46


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOffload:
    """Plans that keep everything on their devices."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offload:
    """What the plans of a table offload, and the host they offload to."""

    graph: Graph
    plans: Plans
    table: WorkTable
    precision: Precision
    host: Host
    kept_bytes: tuple[FloatArray, ...]  # by block: cuts by policies of what a layer has on the host, or nothing

    @property
    def copied_bytes_per_s(self) -> float:
        """One direction of a device's copies while all devices of a host copy."""
        return self.host.copied_bytes_per_s

    def activations_bytes(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """What a microbatch leaves on the host, one device of a stage: plans by runs."""
        return self._of_layers(runs, rows, self.kept_bytes)

    def activations_s(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Seconds that a microbatch's activations take down, and as many up again: one copy for each layer."""
        if not self.plans.offloads_activations:
            return np.zeros((len(rows), len(runs)))
        num_copies = self._of_layers(runs, rows, tuple((kept > 0).astype(np.float64) for kept in self.kept_bytes))
        return self._copied_s(self.activations_bytes(runs, rows), num_copies)

    def _of_layers(self, runs: tuple[StageGroup, ...], rows: IntArray, each: tuple[FloatArray, ...]) -> FloatArray:
        """The sum over a stage's layers of `each`, by cut and policy."""
        cut, planned = self.table.cuts.of_plan[rows], self.plans.recompute[rows]
        total = np.zeros((len(rows), len(runs)))
        for index, run in enumerate(runs):
            for span in run.spans:
                if each[span.block].size:
                    policy = planned if span.policy == AS_PLANNED else span.policy
                    total[:, index] += span.count * each[span.block][cut, policy]
        return total

    def updated_elements(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Parameters that the host updates for one device of a stage, plans by runs: from ZeRO-1 on its share."""
        plain, experts = held_elements(runs, self.graph, self.table, rows)
        plans = self.plans.at(rows)
        is_sharded = plans.zero_stage >= 1
        ranks = np.where(is_sharded, plans.data_parallel * plans.context_parallel, 1)
        expert_ranks = np.where(is_sharded, plans.expert_data_parallel, 1)
        return np.asarray(plain.gradients / ranks[:, None] + experts.gradients / expert_ranks[:, None])

    def gradients_s(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Seconds that reduced gradients take to the host once a step."""
        if not self.plans.offload_optimizer:
            return np.zeros((len(rows), len(runs)))
        return self._copied_s(self.precision.reduce_bytes * self.updated_elements(runs, rows), 1.0)

    def weights_s(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Seconds that updated weights take back to the device, as they are kept there."""
        if not self.plans.offload_optimizer:
            return np.zeros((len(rows), len(runs)))
        return self._copied_s(self.precision.weight_bytes * self.updated_elements(runs, rows), 1.0)

    def update_s(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Seconds from gradients on the host to weights on the device, plans by runs.

        Weights go up tile by tile behind the update, and are read once more for it.
        """
        moved = self.precision.update_bytes + self.precision.weight_bytes
        host_s = moved * self.updated_elements(runs, rows) / (UPDATE_FRAC * self.host.share_bytes_per_s)
        return np.maximum(host_s, self.weights_s(runs, rows))

    def update_bytes(self, runs: tuple[StageGroup, ...], rows: IntArray) -> FloatArray:
        """Gradients down and weights up, once a step."""
        return (self.precision.reduce_bytes + self.precision.weight_bytes) * self.updated_elements(runs, rows)

    def _copied_s(self, copied_bytes: FloatArray, num_copies: FloatArray | float) -> FloatArray:
        return copied_bytes / self.copied_bytes_per_s + num_copies * self.host.link.latency_s


def host_of(cluster: Cluster) -> Host:
    """The host of the cluster's nodes; raises where nothing is said of it."""
    if isinstance(cluster.host, Host):
        return cluster.host
    way_out = "host: {devices: 8, link: 32 GB/s, memory: 2 TB, memory_bandwidth: 600 GB/s}, with its own figures"
    raise InvalidInput(f"the plan offloads, and the hosts are not given of {cluster.name}; add {way_out}", "host")


def does_offload(plan: Plan | Plans) -> bool:
    return plan.offload_optimizer or plan.offloads_activations


def offload_of(sharded: ShardedPlans, table: WorkTable, cluster: Cluster, precision: Precision) -> Offload | NoOffload:
    """What `sharded` plans offload on `cluster`."""
    graph, plans = sharded.graph, sharded.plans
    if not does_offload(plans):
        return NoOffload()
    if plans.offload_optimizer and precision.entry.matrix_update is not None:
        message = f"how the host updates with {precision.optimizer} is not modelled; leave offload_optimizer out"
        raise NotModelled(f"{message}, or set optimizer: adam", "offload_optimizer")
    kept_bytes: tuple[FloatArray, ...] = tuple(np.zeros((0, 0)) for _ in graph.blocks)
    if plans.offloads_activations:
        memories, frac = memory_table(sharded, precision).memories, plans.offload_activations_frac
        kept_bytes = tuple(
            np.asarray(frac * memory.kept_bytes + memory.host_bytes) if block.is_layer else np.zeros((0, 0))
            for block, memory in zip(graph.blocks, memories, strict=True)
        )
    return Offload(
        graph=graph, plans=plans, table=table, precision=precision, host=host_of(cluster), kept_bytes=kept_bytes
    )


def with_offload(
    columns: StageColumns, offload: Offload | NoOffload, runs: tuple[StageGroup, ...], rows: IntArray
) -> StageColumns:
    """The stages of the plans in `rows` with their copies: passes wait for what they cannot hide, the host updates."""
    if isinstance(offload, NoOffload):
        return columns
    if offload.plans.offloads_activations:
        first = np.unique(columns.work_of, return_index=True)[1]
        copied_s = offload.activations_s(runs, rows[first])
        columns = replace(
            columns,
            forward_s=np.maximum(columns.forward_s, copied_s),
            backward_s=np.maximum(columns.backward_s, copied_s),
            sent_bytes=columns.sent_bytes + 2 * offload.activations_bytes(runs, rows[first]),
        )
    if offload.plans.offload_optimizer:
        first = np.unique(columns.update_of, return_index=True)[1]
        link_j = offload.table.chip.energy.link_j_per_byte
        columns = replace(
            columns,
            update_s=offload.update_s(runs, rows[first]),
            update_j=link_j * offload.update_bytes(runs, rows[first]),
        )
    return columns
