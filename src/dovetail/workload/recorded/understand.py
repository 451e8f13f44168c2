"""From a recording to a model: patterns, operators, what may be divided, stretches that repeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dovetail.errors import InvalidInput
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.recorded.drafted import COLS, ROWS, Draft, Drafting
from dovetail.workload.recorded.drafts import drafted
from dovetail.workload.recorded.explained import gradient_notes, graph_notes
from dovetail.workload.recorded.flow import PARAMETERS, Flow, Node
from dovetail.workload.recorded.merging import merge_products
from dovetail.workload.recorded.patterns.attention import take_attention
from dovetail.workload.recorded.patterns.cones import take_cones
from dovetail.workload.recorded.patterns.experts import take_experts, take_rows_of_no_expert
from dovetail.workload.recorded.patterns.gates import take_gates
from dovetail.workload.recorded.patterns.losses import take_losses
from dovetail.workload.recorded.patterns.norms import take_norms
from dovetail.workload.recorded.patterns.thin import take_thin
from dovetail.workload.recorded.patterns.written import take_written
from dovetail.workload.recorded.record import Recorded, Source, Tensor
from dovetail.workload.recorded.sharding import divided
from dovetail.workload.recorded.sizes import ONE
from dovetail.workload.recorded.stretches import stretches_of
from dovetail.workload.recorded.words import PRODUCTS

# Each takes what it knows out of the flow; the order matters: what comes later reads what came before.
PATTERNS: tuple[Callable[[Flow], None], ...] = (
    take_written,
    take_losses,
    take_norms,
    take_attention,
    take_rows_of_no_expert,
    take_cones,
    take_gates,
    take_experts,
    take_thin,
)


def understood(
    recorded: Recorded, *, batch: int = 0, seq: int = 0, notes: tuple[str, ...] = (), backward_flop: float = 0.0
) -> Captured:
    """The model that `recorded` shows; `batch` and `seq` are what a step has by default, 0 for as recorded.

    `backward_flop` are those of all products of the gradients that were recorded, 0 where none were.
    """
    flow = Flow(recorded)
    loss_notes = _take_all(flow)
    drafting = drafted(flow)
    _hoist(drafting)
    _mark_tied(drafting)
    merge_products(drafting)
    regions = divided(drafting)
    is_any_length = flow.scales and recorded.seq != recorded.second_seq
    kv_heads = [draft.num_kv_heads for draft in drafting.drafts if draft.kind == "attention"]
    captured = Captured(
        name=recorded.base.name,
        tool=recorded.tool,
        stretches=stretches_of(drafting.drafts, flow),
        limits=tuple(regions.limits),
        num_kv_heads=min(kv_heads, default=1),
        batch=batch or recorded.batch,
        seq=seq or recorded.seq if is_any_length else recorded.seq,
        is_any_length=is_any_length,
        num_steps=len(recorded.base.steps),
        notes=(*notes, *loss_notes),
    )
    if not captured.num_trained:
        raise InvalidInput(f"{recorded.base.name} has no parameter that is trained, so there is no training to predict")
    more = graph_notes(captured, recorded, flow, drafting.drafts)
    captured = replace(captured, notes=(*captured.notes, *more))
    return replace(captured, notes=(*captured.notes, *gradient_notes(captured, recorded, backward_flop)))


def _take_all(flow: Flow) -> tuple[str, ...]:
    """Puts patterns in place of their steps, and a loss where there is none; returns notes on that."""
    read = {value for value, readers in flow.readers.items() if readers}
    for take in PATTERNS:
        take(flow)
        flow.settle()
    _drop_unread(flow, read)
    return _with_loss(flow)


def _drop_unread(flow: Flow, read: set[int]) -> None:
    """Takes out what only a part of some pattern read: a mask that a kernel makes itself, a cast of logits.

    Products stay: a bias of scores that is one has to be computed, whatever adds it.
    """
    while unread := [
        node
        for node in flow.main()
        if node.word not in PRODUCTS
        and not any(flow.readers[value] for value in node.outputs)
        and any(value in read for value in node.outputs)
        and not any(flow.is_parameter(value) for value in node.inputs)
    ]:
        dropped = {id(node) for node in unread}
        flow.nodes = [node for node in flow.nodes if id(node) not in dropped]
        flow.index()


def _with_loss(flow: Flow) -> tuple[str, ...]:
    """A recording that ends in logits is given the loss that training has; returns notes on it."""
    if any(node.word in ("loss", "binary_cross_entropy", "mse", "nll") for node in flow.nodes):
        return ()
    ends = [node for node in flow.main() if not any(flow.readers[value] for value in node.outputs)]
    if not ends or flow.num_recorded(ends[-1].output) == 1:  # a single number is a loss, whatever it is made of
        return ()
    logits = ends[-1].output
    made = flow.new_number()
    flow.nodes.append(Node(word="loss", inputs=[logits], outputs=[made], place=ends[-1].place + 1))
    flow.nodes[-1].attributes["logits"] = logits
    flow.index()
    classes = flow.tensors[logits].shape[-1]
    return (f"no loss was recorded: softmax cross-entropy over the {classes:,} columns of its output is assumed",)


def _hoist(drafting: Drafting) -> None:
    """What needs nothing but tables and data is made before all else: embeddings, and biases of relative positions."""
    flow = drafting.flow
    early_values: set[int] = set()
    early: list[Draft] = []
    late: list[Draft] = []
    for draft in drafting.drafts:
        is_plain = draft.operator in ("constant", "embedding", "embedding_bag")
        is_plain = is_plain or (draft.operator in ("dropout", "scale") and bool(draft.reads))
        is_weight = draft.makes >= 0 and not flow.is_from_data(draft.makes)
        if (is_plain or is_weight) and all(value in early_values for value in draft.reads):
            draft.is_early = True
            early.append(draft)
            early_values.add(draft.makes)
        else:
            late.append(draft)
    drafting.drafts[:] = [*early, *late]


def _mark_tied(drafting: Drafting) -> None:
    """A parameter belongs to the first that uses it; later uses of the same elements are tied to it.

    Elements that are not used, such as positions beyond the length, are held by the user of the others.
    """
    tensors = drafting.flow.tensors
    left = {index: t.num_elements for index, t in enumerate(tensors) if t.source in PARAMETERS}
    holder: dict[int, Draft] = {}
    for draft in list(drafting.drafts):
        tied = []
        for parameter, count in draft.owns:
            is_left = left.get(parameter, 0) >= count
            tied.append(not is_left)
            left[parameter] = left.get(parameter, 0) - (count if is_left else 0)
            holder.setdefault(parameter, draft)
        _tie(drafting, draft, tied)
    for parameter, draft in holder.items():
        if draft.kind in ("vector", "attention"):
            draft.weight += left[parameter]
        else:
            draft.bias += left[parameter]
    for draft in drafting.drafts:
        _freeze(draft, tensors)


def _freeze(draft: Draft, tensors: list[Tensor]) -> None:
    """Says how much of what a draft holds is not trained. Of a product the first that it owns is its weight."""
    frozen = [tensors[parameter].source is Source.FROZEN for parameter, _ in draft.owns]
    if draft.kind in ("vector", "attention"):
        elements = sum(count for (_, count), is_frozen in zip(draft.owns, frozen, strict=True) if is_frozen)
        draft.frozen = draft.weight if frozen and all(frozen) else min(elements, draft.weight)
    elif frozen:
        draft.frozen = draft.weight if frozen[0] else 0
        draft.frozen_bias = draft.bias if all(frozen[1:]) and (frozen[1:] or frozen[0]) else 0


def _tie(drafting: Drafting, draft: Draft, tied: list[bool]) -> None:
    """Takes from a draft what it owns but others hold; a tied weight of a product stays, and says so."""
    is_product = draft.kind not in ("vector", "attention")
    draft.is_tied = bool(tied) and (all(tied) or (is_product and tied[0]))
    if draft.is_tied and draft.operator == "embedding":  # both stand at the beginning, so it is there already
        draft.is_tied, draft.weight = False, 0
    if draft.is_tied and draft.bias and not all(tied):
        _part_bias(drafting, draft)
    elif not draft.is_tied:
        held_elsewhere = sum(count for (_, count), is_tied in zip(draft.owns, tied, strict=True) if is_tied)
        if is_product:
            draft.bias -= held_elsewhere
        elif draft.operator != "embedding":
            draft.weight -= held_elsewhere


def _part_bias(drafting: Drafting, draft: Draft) -> None:
    """A bias of its own beside a tied weight is an operator of its own."""
    made = drafting.new_value()
    bias = Draft(
        kind="vector",
        name=f"{draft.name}_bias",
        operator="bias_add",
        where=draft.where,
        reads=[made],
        makes=draft.makes,
        sizes=[ONE, draft.sizes[ROWS], draft.sizes[COLS], ONE, ONE],
        weight=draft.bias,
        owns=draft.owns[1:],
    )
    draft.makes, draft.bias, draft.owns = made, 0, draft.owns[:1]
    drafting.drafts.insert(drafting.drafts.index(draft) + 1, bias)
