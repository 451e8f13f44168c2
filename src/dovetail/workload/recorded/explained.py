"""Notes on a captured model: what of it cannot be divided and why, and whether its gradients add up."""

from __future__ import annotations

from collections import defaultdict

from dovetail.workload.graph import Axis
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.recorded.drafted import COLS, FIFTH, INNER, LEAD, ROWS, Draft
from dovetail.workload.recorded.flow import Flow
from dovetail.workload.recorded.record import Recorded
from dovetail.workload.training import training_graph

_NUM_NAMED = 3  # products named in a note
_ALL_FRAC = 0.995  # divided so far, nothing is worth a word
_SAME_FRAC = 0.01  # how far gradients may differ from what was recorded without a word


def graph_notes(captured: Captured, recorded: Recorded, flow: Flow, drafts: list[Draft]) -> tuple[str, ...]:
    """What is not divided, what is not in the graph, and what is charged more than once."""
    num_layers = sum(stretch.repeat for stretch in captured.stretches if stretch.is_layer)
    notes = (
        _tensor_notes(drafts, recorded),
        _aside_notes(flow, drafts, recorded),
        _shared_notes(drafts, num_layers),
        _mixture_notes(flow),
    )
    return tuple(note for found in notes for note in found)


def _tensor_notes(drafts: list[Draft], recorded: Recorded) -> tuple[str, ...]:
    """Which products every device of a tensor-parallel group does whole."""
    whole: dict[str, float] = defaultdict(float)
    total = 0.0
    for draft in drafts:
        work = _flop(draft, recorded)
        total += work
        if work and not _is_divided(draft):
            whole[draft.name] += work
    divided_frac = 1.0 - sum(whole.values()) / total if total else 1.0
    if divided_frac >= _ALL_FRAC:
        return ()
    largest = sorted(whole.items(), key=lambda entry: -entry[1])[:_NUM_NAMED]
    names = ", ".join(f"{name} ({100 * work / total:.0f} %)" for name, work in largest)
    if not divided_frac:
        message = "tensor parallelism cannot divide it: no product was found whose columns another one sums over"
        return (f"{message}, with only element-wise operators or attention between; the largest are {names}",)
    message = f"tensor parallelism divides {100 * divided_frac:.0f} % of the FLOP of products"
    return (f"{message}; each device does the rest whole: {names}",)


def _is_divided(draft: Draft) -> bool:
    axes = Axis.TENSOR | Axis.KV | Axis.EXPERT | Axis.EXPERT_TENSOR
    if draft.kind == "attention":
        return not draft.is_whole
    return bool(axes & (draft.axes[COLS] | draft.axes[INNER] | draft.axes[LEAD]))


def _flop(draft: Draft, recorded: Recorded) -> float:
    if draft.kind not in ("linear", "matmul", "convolution", "attention", "expert_linear", "recurrent_linear"):
        return 0.0
    sizes = [float(size.at(recorded.batch, recorded.seq)) for size in draft.sizes]
    inner = sizes[INNER] + sizes[FIFTH] if draft.kind == "attention" else sizes[INNER]
    return 2.0 * sizes[LEAD] * sizes[ROWS] * sizes[COLS] * inner


def _shared_notes(drafts: list[Draft], num_layers: int) -> tuple[str, ...]:
    """Layers that share their weights (ALBERT): in a pipeline each is charged a copy of its own."""
    tied = sum(draft.is_tied and draft.kind != "vector" and draft.name != "lm_head" for draft in drafts)
    if num_layers < 2 or tied < num_layers:  # sharing needs two
        return ()
    message = "layers share their weights: in a pipeline each layer is charged a copy of its own"
    return (f"{message}, and what stages would exchange for them is not modelled",)


def _mixture_notes(flow: Flow) -> tuple[str, ...]:
    """Experts that all rows go through, where what counts is the rows that were chosen for each."""
    found = next((node for node in flow.nodes if node.word == "permute" and "chosen" in node.attributes), None)
    if found is None:
        return ()
    chosen, experts = found.number("chosen", 1), found.number("experts", 1)
    message = f"this code runs every row by all {experts} experts; counted are the {chosen} that a row chooses"
    return (f"{message}, as kernels for experts compute them",)


def _aside_notes(flow: Flow, drafts: list[Draft], recorded: Recorded) -> tuple[str, ...]:
    """Products that no gradient goes through, where they are worth a word: they are not in the graph."""
    left_out = sum(
        2.0 * flow.num_recorded(node.output) * flow.tensors[node.inputs[0]].shape[-1]
        for node in flow.nodes
        if node.word in ("matmul", "linear") and flow.aside(node) and flow.tensors[node.inputs[0]].shape
    )
    total = sum(_flop(draft, recorded) for draft in drafts)
    if left_out <= _SAME_FRAC * total:
        return ()
    share = 100 * left_out / (left_out + total)
    return (f"products that no gradient goes through, {share:.0f} % of the forward pass, are left out",)


def gradient_notes(captured: Captured, recorded: Recorded, backward_flop: float) -> tuple[str, ...]:
    """Whether the gradients that follow from the forward pass take the FLOP that were recorded for them."""
    if not backward_flop or any(note.startswith("this code runs every row") for note in captured.notes):
        return ()
    sample = Sample(batch=recorded.batch, seq=recorded.seq, dtype="bf16")
    forward = captured.forward(sample)
    derived = training_graph(forward, Precision()).model_flop - forward.model_flop
    if abs(derived - backward_flop) <= _SAME_FRAC * backward_flop:
        return ()
    more = 100 * (derived / backward_flop - 1)
    message = (
        f"its gradients are taken to need {abs(more):.0f} % {'more' if more > 0 else 'fewer'} FLOP in products than"
    )
    why = "some part of it may be detached, or computed again, which is left to a plan's recompute"
    return (f"{message} were recorded: {why}",)
