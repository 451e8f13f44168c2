"""What tensor, sequence, context and expert parallelism may divide of a recorded model.

Pairs of products are found in which columns of the first and the contraction of the second can be dealt out, with all
between them working column by column (or head by head): feed-forward layers and attention. A `gather` opens such a
region and a `reduce` closes it, as in the catalogue's models. Rows are divided by samples always, and by positions
where nothing but attention joins one position with another.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import GATED
from dovetail.workload.recorded.drafted import COLS, INNER, Draft, Drafting
from dovetail.workload.recorded.exchanges import Links, Regions, close_region, open_region
from dovetail.workload.recorded.experts import divide_experts, divide_tables
from dovetail.workload.recorded.positions import divide_rows, mark_core, say_limits
from dovetail.workload.recorded.sizes import Size
from dovetail.workload.recorded.vocabulary import divide_vocabulary

_LOCAL = frozenset(
    (
        "relu", "gelu", "silu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "elementwise", "where", "scale",
        "dropout", "mul", "add", "rope", "cast", "copy", *GATED,
    )
)  # fmt: skip


def divided(drafting: Drafting) -> Regions:
    """Marks which axes may divide each extent of the drafts, puts exchanges between them, and says what limits them."""
    regions = Regions()
    links = Links(drafting.drafts)
    for draft in list(drafting.drafts):
        if draft.kind == "linear" and id(draft) not in regions.inside:
            region = _region(draft, links, regions)
            if region is not None:
                _divide(drafting, region, draft, regions)
    for draft in drafting.drafts:
        draft.is_whole = draft.kind == "attention" and id(draft) not in regions.inside
    divide_vocabulary(drafting, Links(drafting.drafts), regions)
    divide_experts(drafting, regions)
    divide_tables(drafting, regions)
    divide_rows(drafting, regions)
    mark_core(drafting)
    say_limits(drafting, regions)
    return regions


@dataclass(slots=True)
class _Region:
    """First products, what stands between, and how it is limited."""

    first: list[Draft]
    middle: list[Draft]


def _region(last: Draft, links: Links, regions: Regions) -> _Region | None:
    """The region that the product `last` closes; None where some way back does not end at a product of its own."""
    first: dict[int, Draft] = {}
    middle: dict[int, Draft] = {}
    todo = list(last.reads)
    while todo:
        draft = links.maker.get(todo.pop())
        if draft is None or id(draft) in regions.inside or draft is last:
            return None
        if draft.kind == "linear":
            first[id(draft)] = draft
        elif id(draft) not in middle:
            if not _is_local(draft, links):
                return None
            middle[id(draft)] = draft
            todo.extend(_followed(draft, links))
    if not first or not middle:
        return None
    members = {*first, *middle, id(last)}
    for draft in (*first.values(), *middle.values()):
        if any(id(reader) not in members for reader in links.readers[draft.makes]):
            return None
    return _Region(first=list(first.values()), middle=list(middle.values()))


def _is_local(draft: Draft, links: Links) -> bool:
    """Whether it works on each column, or head, by itself; a norm does if it is over fewer columns than it reads."""
    if draft.kind == "attention" or draft.operator in _LOCAL or draft.operator == "concat":
        return True
    read = links.maker.get(draft.reads[0]) if draft.operator in ("rmsnorm", "layernorm") and draft.reads else None
    return read is not None and draft.sizes[COLS].count < read.sizes[COLS].count


def _followed(draft: Draft, links: Links) -> list[int]:
    """Values to look behind. What every head of a concatenation shares comes in whole."""
    if draft.operator != "concat":
        return list(draft.reads)
    wide = [value for value in draft.reads if value in links.maker]
    most = max((links.maker[value].elements.count for value in wide), default=0)
    return [value for value in wide if 2 * links.maker[value].elements.count > most] or list(draft.reads)


def _divide(drafting: Drafting, region: _Region, last: Draft, regions: Regions) -> None:
    attention = next((draft for draft in region.middle if draft.kind == "attention"), None)
    regions.inside.update(id(draft) for draft in (*region.first, *region.middle, last))
    axis_of = _sides_by_head(region, attention)
    for draft in region.first:
        draft.axes[COLS] = int(axis_of.get(id(draft), Axis.TENSOR))
    for draft in region.middle:
        if draft.kind != "attention":
            draft.axes[COLS] = int(axis_of.get(id(draft), Axis.TENSOR))
    last.axes[INNER] = int(Axis.TENSOR)
    if attention is not None:
        regions.limit(Axis.TENSOR, "num_heads", Size(attention.num_heads))
        last.name = "attention_out"
    else:
        regions.limit(Axis.TENSOR, "ffn_width", last.sizes[INNER])
        _name_pair(region, last)
    open_region(drafting, region.first)
    close_region(drafting, last)


def _name_pair(region: _Region, last: Draft) -> None:
    """Up and down, by the module they are in: recompute looks for such pairs by name."""
    words = [word for word in last.where.replace("/", ".").split(".") if word]
    base = words[-2] if len(words) > 1 and not words[-2].isdigit() else "ffn"
    if len(region.first) == 1:
        region.first[0].name = f"{base}_up"
        last.name = f"{base}_down"


def _sides_by_head(region: _Region, attention: Draft | None) -> dict[int, Axis]:
    """Keys and values apart from queries are divided by their own heads."""
    if attention is None or len(attention.reads) < 2:  # queries, and keys with values
        return {}
    makers = {draft.makes: draft for draft in (*region.first, *region.middle)}
    found: dict[int, Axis] = {}
    queries: set[int] = set()
    for index, value in enumerate(attention.reads):
        todo = [value]
        while todo:
            draft = makers.get(todo.pop())
            if draft is None or draft is attention:
                continue
            if index == 0:
                queries.add(id(draft))
            elif id(draft) not in queries:
                found[id(draft)] = Axis.KV
            todo.extend(draft.reads)
    return found
