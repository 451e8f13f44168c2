"""The job: a model, how much of it one step covers, and in which numbers it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from dovetail.errors import InvalidInput, NotModelled, require_positive
from dovetail.registry import at_withdrawal
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.lora import FULL_TRAINING, Lora, adapted
from dovetail.workload.model import Model
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import EVENLY, Routing
from dovetail.workload.training import NARROW, evaluation_graph, training_graph

NUM_KEPT_GRAPHS = 16  # of the workloads that were used last


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One training step of `model` over `global_batch` samples of `seq` positions."""

    model: Model
    global_batch: int
    seq: int
    attention: str = "flash"
    kernels: str = "fused"
    precision: Precision = field(default_factory=Precision)
    routing: Routing = EVENLY  # of rows to experts, where the model has them
    lora: Lora = FULL_TRAINING  # adapters, beside which all weights are frozen
    is_forward_only: bool = False  # an evaluation step: no gradients, no update

    def __post_init__(self) -> None:
        require_positive(self, "global_batch", "seq")
        if self.lora.is_used and self.precision.compute in NARROW:
            message = f"adapters beside products in {self.precision.compute} are not modelled"
            raise NotModelled(f"{message}; set precision: {{compute: bf16}}", "lora")

    @property
    def sample(self) -> Sample:
        return Sample(
            batch=self.global_batch,
            seq=self.seq,
            dtype=self.precision.storage,
            attention=self.attention,
            kernels=self.kernels,
        )

    def forward_graph(self) -> Graph:
        graph = self.model.forward(self.sample)
        if self.routing != EVENLY and not graph.has_experts:
            raise InvalidInput(f"{graph.model} has no experts to route rows to; leave routing out", "routing")
        if not self.lora.is_used and self.lora != FULL_TRAINING:
            raise InvalidInput("targets of adapters go with a rank, which is missing", "lora.rank")
        if self.lora.is_used:
            graph = adapted(graph, self.model.architecture, self.lora, self.sample.kernel_set)
        return replace(graph, routing=self.routing)

    def training_graph(self) -> Graph:
        """The operators of a step: of an evaluation step, those of its forward passes alone."""
        return _training_graph(self)


@lru_cache(maxsize=NUM_KEPT_GRAPHS)
def _training_graph(workload: Workload) -> Graph:
    """Kept: one answer asks for the graph of one workload many times, for its step, assumptions and charts."""
    if workload.is_forward_only:
        return evaluation_graph(workload.forward_graph(), workload.precision)
    return training_graph(workload.forward_graph(), workload.precision)


at_withdrawal(_training_graph.cache_clear)
