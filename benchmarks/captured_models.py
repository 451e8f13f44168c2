"""The catalogue's models beside the same captured from PyTorch: `python -m benchmarks.captured_models [name ...]`.

Both are laid out for the same samples and run by the same plans; what differs is only where the graph came from. The
modules are those of `tests/torch_models`, which repeat no line of the catalogue.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.plan import Plan
from dovetail.units import GIGA
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph, with_recompute
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

CLUSTER = "dgx-h100"
BATCH = 8  # samples of a replica
NUM_MICROBATCHES = 8  # of a pipeline, over those
KERNELS = ("fused", "eager")
RECOMPUTED = ("none", "selective")  # of what is kept; `full` keeps what layers hand on
MOST_FRAC = {"parameters": 0.01, "model FLOP": 0.01, "executed FLOP": 0.01, "activations": 0.01, "step": 0.03}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of one model, as the catalogue's graph has it and as the captured one does."""

    model: str
    figure: str
    under: str  # kernels, and the plan or policy it goes with
    catalogue: float
    captured: float

    @property
    def difference_frac(self) -> float:
        return self.captured / self.catalogue - 1 if self.catalogue else float(self.captured != 0)

    @property
    def holds(self) -> bool:
        return abs(self.difference_frac) <= MOST_FRAC[self.figure]


def captured_model(name: str) -> Model:
    """The catalogue's entry with the architecture that its PyTorch module was understood as."""
    from dovetail.importers.torch_model import recorded_module
    from dovetail.workload.recorded.understand import understood
    from tests.torch_models import BUILDS

    module, inputs = BUILDS[name]()
    return replace(models[name](), architecture=understood(recorded_module(module, inputs, name=name)))


def compared(name: str, captured: Model) -> Iterator[Compared]:
    """Every figure of `captured` beside that of the catalogue's model of this name."""
    both = (models[name](), captured)
    for kernels in KERNELS:
        sample = Sample(batch=BATCH, seq=both[0].seq, dtype="bf16", kernels=kernels)
        graphs = [training_graph(model.forward(sample), Precision()) for model in both]
        for (figure, under, ours), (_, _, theirs) in zip(*map(figures, graphs), strict=True):
            yield Compared(
                model=name, figure=figure, under=f"{kernels} {under}".strip(), catalogue=ours, captured=theirs
            )
        for label, plan in plans(both[0]).items():
            ours, theirs = (_step_s(model, plan, kernels) for model in both)
            yield Compared(model=name, figure="step", under=f"{kernels} {label}", catalogue=ours, captured=theirs)


def figures(graph: Graph) -> Iterator[tuple[str, str, float]]:
    """What is counted of a training graph: its name, under what, and how much."""
    yield "parameters", "", graph.num_parameters
    yield "model FLOP", "", graph.model_flop
    executed = sum(block.repeat * with_recompute(block.ops, "none").flop.sum() for block in graph.blocks)
    yield "executed FLOP", "", float(executed)
    for policy in RECOMPUTED:
        yield "activations", policy, sum(block.repeat * kept_bytes(block, policy) for block in graph.blocks)


def plans(model: Model) -> dict[str, Plan]:
    """Plans that fit DGX H100 nodes, by how many parameters there are to hold: every axis that the model has."""
    num_parameters = model.forward(Sample(batch=1, seq=model.seq, dtype="bf16")).num_parameters
    if model.family == "dlrm":
        return {"ep8 dp8": Plan(data_parallel=8, expert_parallel=8, microbatch=BATCH)}
    found = {}
    if num_parameters < 2.2 * GIGA:
        found["dp8"] = Plan(data_parallel=8, microbatch=BATCH if num_parameters < GIGA else 1)
    elif num_parameters < 12 * GIGA:
        found["dp8 zero3"] = Plan(data_parallel=8, zero_stage=3, recompute=("full",))
    num_heads = _num_heads(model)
    if num_heads == 1:
        return found
    if num_parameters < 25 * GIGA:
        found |= _one_node_plans(model, num_heads)
    return found if num_parameters < 2.2 * GIGA else found | _pipeline_plans(model, num_heads, num_parameters)


def _num_heads(model: Model) -> int:
    """Attention heads, 1 where nothing can be cut by them."""
    return int(getattr(model.architecture, "num_heads", 1))


def _tensor_parallel(num_heads: int) -> int:
    return next(degree for degree in (8, 4, 1) if num_heads % degree == 0)


def _one_node_plans(model: Model, num_heads: int) -> dict[str, Plan]:
    degree = _tensor_parallel(num_heads)
    num_replicas = 8 // degree
    split = Plan(tensor_parallel=degree, data_parallel=num_replicas, recompute=("selective",))
    found = {
        "pp4 dp2": Plan(pipeline_parallel=4, data_parallel=2, zero_stage=1, recompute=("full",)),
    }
    if degree > 1:
        found[f"tp{degree} dp{num_replicas}"] = split
    if isinstance(model.architecture, Transformer):
        if degree > 1:
            found[f"tp{degree} sp dp{num_replicas}"] = replace(split, sequence_parallel=True, recompute=("none",))
        if not model.architecture.num_encoder_layers:
            found["cp4 dp2"] = Plan(context_parallel=4, data_parallel=2, zero_stage=3, recompute=("full",))
    return found


def _pipeline_plans(model: Model, num_heads: int, num_parameters: int) -> dict[str, Plan]:
    degree = _tensor_parallel(num_heads)
    num_stages = next(
        stages
        for most, stages in ((25 * GIGA, 4), (160 * GIGA, 8), (450 * GIGA, 16), (float("inf"), 32))
        if num_parameters < most
    )
    num_replicas = 8 if model.family == "deepseek" else 2
    experts = {"mixtral": 8, "deepseek": 16}.get(model.family, 1)
    plan = Plan(
        tensor_parallel=degree,
        sequence_parallel=True,
        pipeline_parallel=num_stages,
        data_parallel=num_replicas,
        expert_parallel=experts,
        zero_stage=1,
        recompute=("full",),
    )
    suffix = f" ep{experts}" if experts > 1 else ""
    return {f"tp{degree} sp pp{num_stages} dp{num_replicas}{suffix}": plan}


def _step_s(model: Model, plan: Plan, kernels: str) -> float:
    num_devices = plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel * plan.data_parallel
    num_microbatches = NUM_MICROBATCHES if plan.pipeline_parallel > 1 else 1
    global_batch = BATCH * plan.data_parallel * num_microbatches
    workload = Workload(model=model, global_batch=global_batch, seq=model.seq, kernels=kernels)
    outcome = evaluate(workload, clusters[CLUSTER].build(num_devices), plan, has_changes=False)
    assert isinstance(outcome, Outcome), f"{model.name} does not fit under {plan}: {outcome}"
    return float(outcome.step.step_s)


def worst(found: Sequence[Compared], figure: str) -> Compared:
    """The row of `figure` in which the captured model is furthest off."""
    return max((row for row in found if row.figure == figure), key=lambda row: abs(row.difference_frac))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.captured_models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="only these models")
    for name in parser.parse_args(arguments).names or models.names():
        found = list(compared(name, captured_model(name)))
        rows = (worst(found, figure) for figure in MOST_FRAC)
        words = [f"{row.figure} {row.difference_frac:+.2%} ({row.under})" for row in rows]
        print(f"{name:20}{', '.join(words)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
