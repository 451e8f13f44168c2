"""Rows by samples and positions: which axes may divide them, and what limits that."""

from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.layers import SHARED_TOKENS, TOKENS
from dovetail.workload.recorded.drafted import COLS, INNER, LEAD, ROWS, Draft, Drafting
from dovetail.workload.recorded.exchanges import Regions
from dovetail.workload.recorded.sizes import ONE, Size

_MIXING = ("convolution", "recurrent_linear")  # join one position with others


def divide_rows(drafting: Drafting, regions: Regions) -> None:
    positions = _positions(drafting.drafts)
    for draft in drafting.drafts:
        is_inside = id(draft) in regions.inside or draft.is_inside or draft.kind == "exchange"
        taken = Axis.NONE  # an axis divides one extent of an operator
        for index in (LEAD, ROWS):
            size = draft.sizes[index]
            if draft.axes[index] or draft.kind in ("attention", "expert_linear"):
                continue
            axes = _row_axes(size, positions, is_inside=is_inside) & ~taken
            draft.axes[index], taken = int(axes), taken | axes


def _positions(drafts: list[Draft]) -> Size:
    """What samples have many of and attention looks along: a length, or a number that never changes."""
    found = [draft.sizes[ROWS] for draft in drafts if draft.kind == "attention"]
    return max(found, key=found.count) if found else ONE


def _row_axes(size: Size, positions: Size, *, is_inside: bool) -> Axis:
    """Samples by data; positions by context, and by sequence between regions. Rows without samples each replica has."""
    axes = Axis.NONE
    fixed = positions.count if positions.is_fixed else 0
    if size.num_seq or (fixed > 1 and size.num_batch and size.count % fixed == 0):
        axes = TOKENS if is_inside else SHARED_TOKENS
    return axes | Axis.DATA if size.num_batch else axes & ~Axis.DATA


def mark_core(drafting: Drafting) -> None:
    """Operators over pairs of positions that no fused kernel stands for, and the products that read them."""
    core: set[int] = set()
    for draft in drafting.drafts:
        if draft.kind in ("attention", "exchange") or draft.operator == "embedding":
            continue
        over_pairs = sum(draft.sizes[index].num_seq for index in (LEAD, ROWS, COLS)) > 1
        if over_pairs or (draft.kind == "matmul" and core & set(draft.reads)):
            draft.is_core = True
            core.add(draft.makes)


def say_limits(drafting: Drafting, regions: Regions) -> None:
    """What degrees the shapes allow, and which axes have nothing to divide."""
    drafts = drafting.drafts
    attentions = [draft for draft in drafts if draft.kind == "attention"]
    products = [draft for draft in drafts if draft.kind == "linear"]
    if not any(Axis.TENSOR & (draft.axes[COLS] | draft.axes[INNER]) for draft in products):
        regions.limit(Axis.TENSOR, "pairs of products to split", ONE)
    positions = _positions(drafts)
    if not attentions or any(_mixes_positions(draft) for draft in drafts):
        regions.limit(Axis.CONTEXT, "positions that only attention joins", ONE)
        regions.limit(Axis.SEQUENCE, "positions that only attention joins", ONE)
        return
    label = "seq" if positions.num_seq else "num_positions"
    # attention that is not divided reads all positions on every device, and nothing gathers them for it
    has_whole = any(draft.is_whole for draft in attentions)
    whole = "heads that are divided wherever there is attention"
    regions.limit(Axis.SEQUENCE, whole if has_whole else label, ONE if has_whole else positions)
    regions.limit(Axis.CONTEXT, label, positions)
    for draft in attentions:
        regions.limit(Axis.HEADS, "num_heads", Size(draft.num_heads))
        regions.limit(Axis.HEADS, "num_kv_heads", Size(draft.num_kv_heads))


def _mixes_positions(draft: Draft) -> bool:
    """Whether one position meets others in it: a recurrence, a window, or a product that sums over positions."""
    if draft.kind in _MIXING:
        return bool(draft.sizes[ROWS].num_seq or draft.sizes[LEAD].num_seq)
    return draft.kind in ("linear", "matmul") and bool(draft.sizes[INNER].num_seq)
