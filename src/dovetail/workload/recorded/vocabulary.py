"""Logits and the table that tokens are looked up in: the tensor axis may divide the vocabulary."""

from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.drafted import COLS, INNER, ROWS, Drafting
from dovetail.workload.recorded.exchanges import Links, Regions, close_region, open_region

_ON_LOGITS = ("scale", "tanh", "elementwise", "cast", "copy", "bias_add", "dropout", "mul")


def divide_vocabulary(drafting: Drafting, links: Links, regions: Regions) -> None:
    """Logits by columns, with the loss over them, and the table that tokens are looked up in by rows.

    Only where positions are tokens: a classifier's few columns stay whole.
    """
    for loss in [draft for draft in drafting.drafts if draft.kind == "loss"]:
        chain, maker = [loss], links.maker.get(loss.reads[0])
        while maker is not None and maker.kind == "vector" and maker.operator in _ON_LOGITS:
            chain.append(maker)
            maker = links.maker.get(maker.reads[0]) if maker.reads else None
        if maker is None or maker.kind != "linear" or id(maker) in regions.inside or not maker.reads:
            continue
        if not loss.sizes[ROWS].num_seq:
            continue
        maker.name = "lm_head"
        for draft in (*chain, maker):
            draft.axes[COLS] = int(Axis.TENSOR)
            draft.weight_axes |= int(Axis.TENSOR) if draft.weight and draft is not maker else 0
            regions.inside.add(id(draft))
        open_region(drafting, [maker])
    tables = [d for d in drafting.drafts if d.operator == "embedding" and d.sizes[INNER] > d.sizes[COLS]]
    for table in tables:
        if not table.sizes[ROWS].num_batch or id(table) in regions.inside:
            continue
        table.axes[INNER] = table.weight_axes = int(Axis.TENSOR)
        regions.inside.add(id(table))
        close_region(drafting, table)
