"""A captured model as plain data: what it computes, holds and repeats, and its supported parallelism."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from dovetail.parallel.block_memory import kept_bytes
from dovetail.report.plain import Record
from dovetail.workload.graph import Axis, Block, Graph, Phase
from dovetail.workload.model import Model
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.workload import Workload

# What may divide a model: its name, the axis of the graph, and why it cannot where it cannot.
AXES = (
    ("tensor", Axis.TENSOR, "no attention and no pair of products was recognised whose columns can be dealt out"),
    ("sequence", Axis.SEQUENCE, "samples have no positions, or what lies between products does not keep them apart"),
    ("context", Axis.CONTEXT, "samples have no positions that attention could be divided by"),
    ("expert", Axis.EXPERT, "no experts were recognised"),
)
PIPELINE_WHY = "nothing repeats, and a cut has to lie between layers"


def captured_brief(captured: Captured) -> Record:
    """What a captured model says of itself, beside its graph."""
    return {
        "tool": captured.tool,
        "recorded_operators": captured.num_steps,
        "recorded_batch": captured.batch,
        "recorded_seq": captured.seq,
        "is_any_length": captured.is_any_length,
    }


def captured_record(model: Model, *, is_from_cache: bool, remarks: tuple[str, ...], model_file: str = "") -> Record:
    """Everything known of a captured model, over one sample of the length it was recorded at."""
    assert isinstance(model.architecture, Captured), f"{model.name} was not captured"
    workload = Workload(model=model, global_batch=1, seq=model.seq)
    forward, training = workload.forward_graph(), workload.training_graph()
    blocks = [_block_record(*pair) for pair in zip(forward.blocks, training.blocks, strict=True)]
    forward_flop = sum(block["repeat"] * block["forward_flop"] for block in blocks)
    for block in blocks:
        block["flop_frac"] = _frac(block["repeat"] * block["training_flop"], training.model_flop)
        block["parameters_frac"] = _frac(block["repeat"] * block["num_parameters"], training.num_parameters)
    return {
        "name": model.name,
        **captured_brief(model.architecture),
        "sample": model.sample,
        "seq": model.seq,
        "num_parameters": training.num_parameters,
        "num_layers": training.num_layers,
        "forward_flop": forward_flop,
        "backward_flop": training.model_flop - forward_flop,
        "training_flop": training.model_flop,
        "activation_bytes": sum(block["repeat"] * block["activation_bytes"] for block in blocks),
        "blocks": blocks,
        "sharding": list(_sharding(forward, model.notes)),
        "operators": _operators(training),
        "notes": list(model.notes),
        "remarks": list(remarks),
        "is_from_cache": is_from_cache,
        "model_file": model_file,
    }


def _frac(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _block_record(forward: Block, training: Block) -> Record:
    """One repeat over one sample; FLOP of products by the field's convention, activations without recompute."""
    return {
        "name": forward.name,
        "repeat": forward.repeat,
        "is_layer": forward.is_layer,
        "num_operators": len(forward.ops) - 1,
        "num_parameters": forward.num_parameters,
        "forward_flop": float(forward.ops.model_flop.sum()),
        "training_flop": float(training.ops.model_flop.sum()),
        "activation_bytes": kept_bytes(training, "none"),
    }


def _sharding(graph: Graph, notes: tuple[str, ...]) -> Iterator[Record]:
    """Each way to divide the model: whether it can be, what a degree must divide, or why it cannot.

    A note on the model that says why goes before what holds of every model.
    """
    for name, axis, otherwise in AXES:
        words = f"{name} parallelism cannot divide it: "
        why = next((note.removeprefix(words) for note in notes if note.startswith(words)), otherwise)
        limits = [rule for rule in graph.rules if rule.axis == axis]
        can = bool(limits) and all(rule.count > 1 for rule in limits)
        must = list(dict.fromkeys((rule.label, rule.count) for rule in limits))
        yield {
            "axis": name,
            "can_divide": can,
            "must_divide": [{"what": label, "count": count} for label, count in must] if can else [],
            "parameters_frac": _divided_frac(graph, axis),
            "why_not": "" if can else why,
        }
    layers = graph.num_layers
    yield {
        "axis": "pipeline",
        "can_divide": layers > 1,
        "must_divide": [],
        "parameters_frac": _frac(
            sum(b.repeat * b.num_parameters for b in graph.blocks if b.is_layer), graph.num_parameters
        ),
        "why_not": "" if layers > 1 else PIPELINE_WHY,
    }
    yield {"axis": "data", "can_divide": True, "must_divide": [], "parameters_frac": 1.0, "why_not": ""}


def _divided_frac(graph: Graph, axis: Axis) -> float:
    """Share of all parameters that `axis` divides."""
    divided = 0.0
    for block in graph.blocks:
        owned = ~block.ops.is_tied
        for elements, split in (
            (block.ops.weight_elements, block.ops.weight_split),
            (block.ops.bias_elements, block.ops.bias_split),
        ):
            own_axes = axis | (Axis.KV if axis == Axis.TENSOR else Axis.NONE)
            divided += block.repeat * float(elements[owned & ((split & int(own_axes)) != 0)].sum())
    return _frac(divided, graph.num_parameters)


def _operators(graph: Graph) -> list[Record]:
    """Operators of a step by kind, without second forward passes: how often, FLOP on their units, bytes moved."""
    found: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for block in graph.blocks:
        ops = block.ops
        runs = (ops.phase != Phase.RECOMPUTE) & (ops.unit != Unit.NONE) & (ops.unit != Unit.NETWORK)
        moved_bytes = ops.read_bytes + ops.write_bytes
        for kind in np.unique(ops.kind[runs]).tolist():
            rows = runs & (ops.kind == kind)
            sums = (float(rows.sum()), float(ops.flop[rows].sum()), float(moved_bytes[rows].sum()))
            found[kind] = [old + block.repeat * new for old, new in zip(found[kind], sums, strict=True)]
    whole_flop, whole_bytes = (sum(sums[place] for sums in found.values()) for place in (1, 2))
    ranked = sorted(found.items(), key=lambda item: (-item[1][1], -item[1][2], item[0]))
    return [
        {
            "kind": OPERATORS[kind].name,
            "num": int(count),
            "flop": flop,
            "flop_frac": _frac(flop, whole_flop),
            "bytes": num_bytes,
            "bytes_frac": _frac(num_bytes, whole_bytes),
        }
        for kind, (count, flop, num_bytes) in ranked
    ]
