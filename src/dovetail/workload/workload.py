"""The job: a model, how much of it one step covers, and in which numbers it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dovetail.errors import InvalidInput, require_positive
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import EVENLY, Routing
from dovetail.workload.training import training_graph


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

    def __post_init__(self) -> None:
        require_positive(self, "global_batch", "seq")

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
        return replace(graph, routing=self.routing)

    def training_graph(self) -> Graph:
        return training_graph(self.forward_graph(), self.precision)
