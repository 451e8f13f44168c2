"""Instances of PHAZE's placement program, and the optima its released code recorded, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.entry import opened
from dovetail.files.measurements import shipped_folder
from dovetail.files.schema import Number, Shape, Text, Whole, checked
from dovetail.papers.phaze_dp import Placed
from dovetail.search.planners.placement.problem import LayerRun, PlacementProblem, Variant

FOLDER = "phaze-dp"
INPUT, OUTPUT = ".in.json", ".out.json"
WEIGHT_COPIES = {"SGD": 2, "Adam": 3}  # weights, gradients and Adam's state. Source: PHAZE's code, commit fed7cde


class _Layer(Shape):
    id: int
    activationSize: Number  # noqa: N815
    parameterSize: Number  # noqa: N815
    isTensorParallelized: bool  # noqa: N815
    optimalLatencyFw: Number  # noqa: N815
    optimalLatencyBw: Number  # noqa: N815
    energy: Number


class _Edge(Shape):
    sourceId: int  # noqa: N815
    destId: int  # noqa: N815
    communicationCost: Number  # noqa: N815


class _Instance(Shape):
    maxMemoryPerDevice: Number  # noqa: N815
    maxDevices: Whole  # noqa: N815
    bandwidth: Number
    mbsInBatch: Number  # noqa: N815
    nodes: dict[str, list[_Layer]]
    edges: dict[str, list[_Edge]]
    activationRecomputation: bool  # noqa: N815
    optimizerAlgorithm: Text  # noqa: N815
    fixedPP: Whole  # noqa: N815
    fixedTMPC: Whole  # noqa: N815
    fixedDP: Whole  # noqa: N815
    numTransformerLayers: Whole  # noqa: N815


class _Stage(Shape):
    devicesForStage: Whole  # noqa: N815
    nodes: list[int]


class _Answer(Shape):
    dataParallelDegree: Whole  # noqa: N815
    finalTimePerBatch: Number  # noqa: N815
    fixedStrategyTimePerBatch: Number  # noqa: N815
    stages: list[_Stage]
    tensorParallelDegree: Whole  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class PhazeInstance:
    """A problem, and the experts' placement of it: degrees, and where its stages end."""

    problem: PlacementProblem
    expert_tensor_parallel: int
    expert_data_parallel: int
    expert_ends: tuple[int, ...]


def shipped_instances() -> dict[str, Path]:
    """The instances that ship with the package, by name."""
    files = sorted(shipped_folder(FOLDER).glob("*" + INPUT))
    return {file.name.removesuffix(INPUT): file for file in files}


def load_instance(file: Path) -> PhazeInstance:
    found: _Instance = checked(opened(file), _Instance)
    if found.optimizerAlgorithm not in WEIGHT_COPIES:
        raise InvalidInput(f"optimizerAlgorithm is {' or '.join(WEIGHT_COPIES)}; got {found.optimizerAlgorithm!r}")
    if not found.nodes or not all(found.nodes.values()):
        raise InvalidInput("an instance needs a table of layers for at least one tensor-parallel degree", "nodes")
    variants = tuple(_variant(found, degree, layers) for degree, layers in found.nodes.items())
    problem = PlacementProblem(
        variants=variants,
        num_devices=found.maxDevices,
        memory_bytes=found.maxMemoryPerDevice,
        link_bytes_per_s=found.bandwidth,
        weight_copies=WEIGHT_COPIES[found.optimizerAlgorithm],
        recompute="always" if found.activationRecomputation else "never",
    )
    return PhazeInstance(
        problem=problem,
        expert_tensor_parallel=found.fixedTMPC,
        expert_data_parallel=found.fixedDP,
        expert_ends=_expert_ends(found),
    )


def load_recorded(instance: Path) -> Placed:
    """What PHAZE's code answered to the instance in this file."""
    file = instance.with_name(instance.name.removesuffix(INPUT) + OUTPUT)
    found: _Answer = checked(opened(file), _Answer)
    return Placed(
        batch_s=found.finalTimePerBatch,
        expert_batch_s=found.fixedStrategyTimePerBatch,
        tensor_parallel=found.tensorParallelDegree,
        data_parallel=found.dataParallelDegree,
        num_stages=len(found.stages),
    )


def _variant(found: _Instance, degree: str, layers: Sequence[_Layer]) -> Variant:
    edges = {(edge.sourceId, edge.destId): edge.communicationCost for edge in found.edges.get(degree, ())}
    pairs = [(a.id, b.id) for a, b in pairwise(layers)]
    if not degree.isdecimal() or set(edges) != set(pairs):
        raise InvalidInput(f"layers of degree {degree!r} must be a chain in order: each edge to the next layer")
    incoming = [edges[pairs[0]] if pairs else 0.0, *(edges[pair] for pair in pairs)]  # the first takes none
    rows = [
        (
            layer.optimalLatencyFw,
            layer.optimalLatencyBw,
            layer.parameterSize,
            layer.activationSize,
            taken,
            layer.isTensorParallelized,
        )
        for layer, taken in zip(layers, incoming, strict=True)
    ]
    runs = tuple(
        LayerRun(
            num_layers=len(list(group)),
            forward_s=forward,
            backward_s=backward,
            weight_bytes=weight,
            activation_bytes=activation,
            incoming_bytes=taken,
            is_sharded=is_sharded,
        )
        for (forward, backward, weight, activation, taken, is_sharded), group in groupby(rows)
    )
    return Variant(tensor_parallel=int(degree), num_microbatches=int(found.mbsInBatch), runs=runs)


def _expert_ends(found: _Instance) -> tuple[int, ...]:
    """The experts' equal stages as the released code cuts them.

    It numbers layers again before it counts, so that the embedding is the first transformer layer to it and the last
    stage gets the one left over; the recorded times are of that cut.
    """
    num_layers = len(next(iter(found.nodes.values())))
    if not 1 <= found.fixedPP <= found.numTransformerLayers <= num_layers:
        raise InvalidInput(f"fixedPP must be from 1 to {found.numTransformerLayers}; got {found.fixedPP}")
    each = -(-found.numTransformerLayers // found.fixedPP)
    return (*(min(each * stage, found.numTransformerLayers) for stage in range(1, found.fixedPP)), num_layers)
