"""Experts and embedding tables: what the expert axis may divide."""

from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.layers import SHARED_TOKENS, TOKENS
from dovetail.workload.recorded.captured import GATED
from dovetail.workload.recorded.drafted import COLS, INNER, LEAD, ROWS, Draft, Drafting
from dovetail.workload.recorded.exchanges import Regions
from dovetail.workload.recorded.sizes import ONE, Size


def divide_experts(drafting: Drafting, regions: Regions) -> None:
    """Between permutation and its inverse: rows to the device of their expert, products by group, and rows back."""
    for unpermute in [draft for draft in drafting.drafts if draft.operator == "unpermute"]:
        members = _members(drafting, unpermute)
        permute = next((draft for draft in members if draft.operator == "permute"), None)
        products = [draft for draft in members if draft.kind == "expert_linear"]
        if permute is None or not products:
            continue
        _divide_mixture(drafting, permute, products, unpermute)
        for draft in members:
            _mark(draft, products)
        groups = products[0].sizes[LEAD]
        regions.limit(Axis.EXPERT, "num_experts", groups)
        regions.limit(Axis.EXPERT_TENSOR, "expert width", products[-1].sizes[INNER])
        for draft in members:
            regions.inside.add(id(draft))


def _members(drafting: Drafting, unpermute: Draft) -> list[Draft]:
    """Drafts from the permutation to its inverse, in order."""
    maker = {draft.makes: draft for draft in drafting.drafts}
    found: dict[int, Draft] = {}
    todo = [unpermute.reads[0]]
    while todo:
        draft = maker.get(todo.pop())
        if draft is None or id(draft) in found:
            continue
        found[id(draft)] = draft
        if draft.operator != "permute":
            todo.extend(draft.reads)
    return [draft for draft in drafting.drafts if id(draft) in found]


def _mark(draft: Draft, products: list[Draft]) -> None:
    rows = int(Axis.EXPERT_DATA | Axis.ROUTED)
    if draft.kind == "expert_linear":
        draft.axes[LEAD], draft.axes[ROWS] = int(Axis.EXPERT), rows
        is_last = draft is products[-1]
        draft.axes[INNER if is_last else COLS] = int(Axis.EXPERT_TENSOR)
    elif draft.operator in GATED or draft.operator in ("silu", "gelu", "relu", "mul", "elementwise", "scale"):
        draft.sizes[ROWS] = products[0].sizes[LEAD] * products[0].sizes[ROWS]
        draft.axes[ROWS] = int(Axis.EXPERT) | rows
        draft.axes[COLS] = int(Axis.EXPERT_TENSOR)
        if draft.sizes[COLS] == products[0].sizes[LEAD] * products[-1].sizes[INNER]:  # all experts side by side
            draft.sizes[COLS] = products[-1].sizes[INNER]


def _divide_mixture(drafting: Drafting, permute: Draft, products: list[Draft], unpermute: Draft) -> None:
    copies = max(1, permute.sizes[ROWS].over(unpermute.sizes[ROWS]).count)
    for index, draft in enumerate(products):
        draft.name = "expert_down" if index == len(products) - 1 else "expert_up"
    permute.axes[ROWS] = int(SHARED_TOKENS)
    sent, gathered = int(SHARED_TOKENS | Axis.ROUTED), int(TOKENS | Axis.ROUTED)
    _send(drafting, permute, permute, (("dispatch", sent, copies), ("expert_gather", gathered, 1)))
    back = (("expert_reduce", gathered, 1), ("combine", int(SHARED_TOKENS), copies))
    _send(drafting, products[-1], permute, back)


def _send(drafting: Drafting, after: Draft, shape: Draft, kinds: tuple[tuple[str, int, int], ...]) -> None:
    """Exchanges one after another behind `after`, of rows as `shape` has them."""
    value = after.makes
    readers = [draft for draft in drafting.drafts if value in draft.reads]
    at = drafting.drafts.index(after) + 1
    for operator, axes, num_copies in kinds:
        exchange = Draft(
            kind="exchange",
            name=operator,
            operator=operator,
            where=after.where,
            reads=[value],
            makes=drafting.new_value(),
            sizes=[ONE, shape.sizes[ROWS], shape.sizes[COLS], ONE, ONE],
            num_copies=num_copies,
        )
        exchange.axes[ROWS] = axes
        drafting.drafts.insert(at, exchange)
        at, value = at + 1, exchange.makes
    for draft in readers:
        draft.reads = [value if read == after.makes else read for read in draft.reads]


def divide_tables(drafting: Drafting, regions: Regions) -> None:
    """Bags of one width are looked up as one, each device in its own tables; what is found goes back to its rows."""
    by_width: dict[Size, list[Draft]] = {}
    for draft in drafting.drafts:
        if draft.operator == "embedding_bag":
            by_width.setdefault(draft.sizes[COLS], []).append(draft)
    for width, tables in by_width.items():
        if len(tables) > 1:
            _merge_tables(drafting, regions, width, tables)


def _merge_tables(drafting: Drafting, regions: Regions, width: Size, tables: list[Draft]) -> None:
    first, number = tables[0], Size(len(tables))
    rows = first.sizes[ROWS]
    first.name = "tables"
    first.sizes[ROWS] = number * rows
    first.weight = sum(draft.weight for draft in tables)
    first.owns = [owned for draft in tables for owned in draft.owns]
    first.axes[ROWS] = int(Axis.EXPERT | Axis.EXPERT_DATA)
    first.weight_axes = int(Axis.EXPERT)
    first.sizes[INNER] = ONE
    regions.limit(Axis.EXPERT, "num_tables", number)
    regions.inside.add(id(first))
    made = drafting.new_value()
    combine = Draft(
        kind="exchange",
        name="combine",
        operator="combine",
        where=first.where,
        reads=[first.makes],
        makes=made,
        sizes=[ONE, rows, number * width, ONE, ONE],
    )
    gone = {draft.makes for draft in tables}
    drafting.drafts[:] = [draft for draft in drafting.drafts if draft is first or draft not in tables]
    for draft in drafting.drafts:
        draft.reads = list(dict.fromkeys(made if value in gone else value for value in draft.reads))
    drafting.drafts.insert(drafting.drafts.index(first) + 1, combine)
