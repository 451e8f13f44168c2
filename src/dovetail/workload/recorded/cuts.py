"""Where a recorded model may be cut: one tensor alone goes on, beside tensors that many later parts read."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from dovetail.workload.recorded.captured import GATED
from dovetail.workload.recorded.drafted import Draft

# Operators that go with the product before them: no cut is made between a convolution and its activation.
_TAILS = frozenset(
    (
        "relu", "gelu", "silu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "elementwise", "scale", *GATED,
        "batchnorm", "dropout", "bias_add", "maxpool", "strided_maxpool", "cast", "copy", "softmax", "lstm_cell",
        "reduce", "binary_cross_entropy",
    )
)  # fmt: skip
_ENDS = ("layernorm", "rmsnorm", "add")  # of a layer
_NUM_READERS_PAST = 3  # a tensor with fewer readers is a residual, or a branch


@dataclass(frozen=True, slots=True)
class DraftSpan:
    """Drafts between two cuts, what comes in and what goes on."""

    drafts: tuple[Draft, ...]
    comes_in: tuple[int, ...]
    goes_on: tuple[int, ...]


def pieces_of(drafts: list[Draft]) -> list[DraftSpan]:
    """`drafts` cut wherever one value alone goes on, beside those that go past cuts."""
    past = _going_past(drafts)
    reading = [index for index, draft in enumerate(drafts) if not draft.reads]  # data, of which the first has all
    makers = {draft.makes: draft for draft in drafts}
    pieces: list[DraftSpan] = []
    begun = 0
    came: tuple[int, ...] = ()
    for index, live in enumerate(_live(drafts)):
        if not max(reading, default=0) <= index < len(drafts) - 1 or _is_tail(drafts[index + 1], makers):
            continue
        if sum(value not in past for value in live) <= 1:
            pieces.append(DraftSpan(tuple(drafts[begun : index + 1]), came, live))
            begun, came = index + 1, live
    pieces.append(DraftSpan(tuple(drafts[begun:]), came, ()))
    return pieces


def _is_tail(draft: Draft, makers: dict[int, Draft]) -> bool:
    """Whether it goes with what it reads; before dropout behind a norm or a residual a stretch may end all the same."""
    if draft.kind in ("recurrent_linear", "loss", "exchange"):
        return draft.kind != "exchange" or draft.operator == "reduce"
    read = [makers[value].operator for value in draft.reads if value in makers]
    is_apart = draft.operator == "dropout" and any(operator in _ENDS for operator in read)
    return draft.operator in _TAILS and not is_apart


def _live(drafts: list[Draft]) -> list[tuple[int, ...]]:
    """After each draft, the values made so far that are still to be read.

    What was looked up for a later stretch, such as a decoder's tokens, waits where it is read; it is not handed on.
    """
    last_read = {value: index for index, draft in enumerate(drafts) for value in draft.reads}
    first_read = {value: index for index, draft in reversed(list(enumerate(drafts))) for value in draft.reads}
    begins = sum(draft.is_early for draft in drafts)
    looked_up = {draft.makes for draft in drafts[:begins]}
    live: list[int] = []
    found = []
    for index, draft in enumerate(drafts):
        live = [value for value in live if last_read[value] > index]
        if last_read.get(draft.makes, -1) > index:
            live.append(draft.makes)
        near = [value for value in live if value not in looked_up or first_read[value] <= max(index, begins)]
        found.append(tuple(near))
    return found


def _going_past(drafts: list[Draft]) -> set[int]:
    """Values that several stretches read: between any two of their readers one value alone goes on.

    What branches of one stretch read is not among them: while a branch runs, what the others gave is there too.
    """
    readers: dict[int, list[int]] = defaultdict(list)
    for index, draft in enumerate(drafts):
        for value in dict.fromkeys(draft.reads):
            readers[value].append(index)
    many = {value for value, places in readers.items() if len(places) >= _NUM_READERS_PAST}
    cuts = [index for index, live in enumerate(_live(drafts)) if sum(value not in many for value in live) <= 1]
    return {
        value
        for value in many
        if all(
            (place := bisect_left(cuts, first)) < len(cuts) and cuts[place] < second
            for first, second in pairwise(readers[value])
            if second > first + 1
        )
    }


def signature(piece: DraftSpan) -> tuple[object, ...]:
    """What makes two pieces the same: operators, extents, parameters, and who reads what of whom."""
    local = {draft.makes: index + 1 for index, draft in enumerate(piece.drafts)}
    return tuple(
        (
            draft.kind,
            draft.operator,
            tuple(draft.sizes),
            tuple(draft.axes),
            draft.weight,
            draft.bias,
            draft.frozen,
            draft.frozen_bias,
            draft.is_tied,
            draft.output_frac,
            draft.shared_frac,
            draft.stride,
            draft.num_heads,
            draft.num_kv_heads,
            draft.is_causal,
            draft.window,
            draft.has_dropout,
            draft.score_kinds,
            draft.is_core,
            draft.is_whole,
            tuple(local.get(value, 0) for value in draft.reads),
        )
        for draft in piece.drafts
    )
