"""Stretches of a recorded model between cuts, each a block; equal ones are one, repeated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import NO_SIDE, BlockOperator, Side, Stretch
from dovetail.workload.recorded.cuts import DraftSpan, pieces_of
from dovetail.workload.recorded.drafted import COLS, ROWS, Draft, rows_and_columns
from dovetail.workload.recorded.flow import Flow
from dovetail.workload.recorded.runs import PRODUCTS, has_product, runs_of
from dovetail.workload.recorded.sizes import ONE, Size


def stretches_of(drafts: list[Draft], flow: Flow) -> tuple[Stretch, ...]:
    pieces = pieces_of(drafts)
    shapes = {draft.makes: draft for draft in drafts}
    runs = runs_of(pieces)
    between = [run for run in runs[1:-1] if run[2] == 1 and not has_product(pieces, run)]
    moved = tuple(d for run in between for piece in pieces[run[0] : run[0] + run[1]] for d in piece.drafts)
    found: list[Stretch] = []
    names: dict[str, int] = defaultdict(int)
    has_trained = False  # in what came before, so that a gradient goes back to there
    for run in runs:
        if run in between:  # a norm between two stacks of layers: once a step like the last, so it stands there
            continue
        first, period, repeat = run
        inside = pieces[first : first + period]
        whole = DraftSpan(
            drafts=(moved if run is runs[-1] else ()) + tuple(draft for piece in inside for draft in piece.drafts),
            comes_in=inside[0].comes_in,
            goes_on=inside[-1].goes_on,
        )
        has_trained = has_trained or (repeat > 1 and _is_trained(whole))
        found.append(_stretch(whole, shapes, flow, repeat, is_first=not found or not has_trained, names=names))
        has_trained = has_trained or _is_trained(whole)
    return _with_ends(found)


def _is_trained(piece: DraftSpan) -> bool:
    return any(draft.weight + draft.bias > draft.frozen + draft.frozen_bias for draft in piece.drafts)


def _stretch(
    piece: DraftSpan, shapes: dict[int, Draft], flow: Flow, repeat: int, *, is_first: bool, names: dict[str, int]
) -> Stretch:
    local = {draft.makes: index + 1 for index, draft in enumerate(piece.drafts)}
    used: dict[str, int] = defaultdict(int)
    parts = tuple(_part(draft, local, used) for draft in piece.drafts)
    rows, cols = _input_sides(piece, shapes, flow)
    name = _name(piece.drafts, repeat)
    names[name] += 1
    return Stretch(
        name=name if names[name] == 1 else f"{name}_{names[name]}",
        parts=parts,
        input_rows=rows,
        input_cols=cols,
        carried=_total([_made(value, shapes) for value in piece.goes_on]),
        repeat=repeat,
        is_layer=True,
        is_input_data=is_first,
    )


def _input_sides(piece: DraftSpan, shapes: dict[int, Draft], flow: Flow) -> tuple[Side, Side]:
    """Rows and columns of the tensor that comes in; of a first stretch, of the data."""
    if piece.comes_in:
        draft = shapes[piece.comes_in[-1]]
        is_other = draft.makes >= 0 and (draft.output_frac < 1.0 or draft.kind == "convolution")
        # the extents of a reduction are of what it reads, those of a transposed convolution of its product
        rows, cols = rows_and_columns(flow.sides[draft.makes]) if is_other else _made_sides(draft)
        axes = draft.axes[ROWS]
        if draft.operator == "reduce" and axes & Axis.CONTEXT:  # what a sum leaves is divided as between regions
            axes |= int(Axis.SEQUENCE)
        return (rows, axes), (cols, draft.axes[COLS])
    first = next((d for d in piece.drafts if d.kind in PRODUCTS), piece.drafts[-1])
    if first.kind == "convolution":
        came = [v for v in range(len(flow.tensors)) if flow.tensors[v].source.value == "input" and flow.sides[v]]
        image = max(came, key=flow.num_recorded, default=None)
        if image is not None:
            rows, cols = rows_and_columns(flow.sides[image])
            return (rows, first.axes[ROWS]), (cols, 0)
    table = next((d for d in piece.drafts if d.operator.startswith("embedding")), None)
    shape = first if first.kind == "linear" else table
    if shape is None:
        return NO_SIDE, NO_SIDE
    cols = shape.sizes[3] if shape.kind == "linear" else shape.sizes[COLS]
    return (shape.sizes[ROWS], shape.axes[ROWS]), (cols, 0)


def _made_sides(draft: Draft) -> tuple[Size, Size]:
    """What a draft makes, as rows by columns."""
    if draft.kind == "attention":
        return draft.sizes[0] * draft.sizes[1], draft.sizes[4]
    if draft.kind in ("matmul", "expert_linear", "recurrent_linear"):
        return draft.sizes[0] * draft.sizes[1], draft.sizes[2]
    if draft.kind == "convolution":
        return draft.sizes[1], draft.sizes[0] * draft.sizes[2]
    return draft.sizes[1], draft.sizes[2]


def _made(value: int, shapes: dict[int, Draft]) -> Size:
    rows, cols = _made_sides(shapes[value])
    frac = shapes[value].output_frac
    size = rows * cols
    if frac == 1.0:
        return size
    above, below = frac.as_integer_ratio()
    return size * Size(above, per=below)


def _total(sizes: list[Size]) -> Size:
    """Sizes in all, as so many of the one that grows the most."""
    if not sizes:
        return Size(0)
    most = max(sizes, key=lambda size: (size.num_batch, size.num_seq))
    same = [size for size in sizes if (size.num_batch, size.num_seq) == (most.num_batch, most.num_seq)]
    per = 1
    for size in same:
        per *= size.per
    count = sum(size.count * per // size.per for size in same)
    return Size(count, most.num_batch, most.num_seq, per) * ONE


def _part(draft: Draft, local: dict[int, int], used: dict[str, int]) -> BlockOperator:
    used[draft.name] += 1
    name = draft.name if used[draft.name] == 1 else f"{draft.name}_{used[draft.name]}"
    inputs = tuple(dict.fromkeys(local.get(value, 0) for value in draft.reads)) or (0,)
    return BlockOperator(
        kind=draft.kind,
        name=name,
        inputs=inputs,
        extents=tuple(zip(draft.sizes, draft.axes, strict=True)),
        operator=draft.operator,
        weight=draft.weight,
        weight_axes=draft.weight_axes,
        bias=draft.bias,
        frozen=draft.frozen,
        frozen_bias=draft.frozen_bias,
        is_tied=draft.is_tied,
        output_frac=draft.output_frac,
        shared_frac=draft.shared_frac,
        stride=draft.stride,
        num_heads=draft.num_heads,
        num_kv_heads=draft.num_kv_heads,
        is_causal=draft.is_causal,
        window=draft.window,
        has_dropout=draft.has_dropout,
        score_kinds=draft.score_kinds,
        num_copies=draft.num_copies,
        is_core=draft.is_core,
        is_whole=draft.is_whole,
    )


def _name(drafts: tuple[Draft, ...], repeat: int) -> str:
    """The longest path that its modules share, numbers left out."""
    paths = [draft.where.replace("/", ".").split(".") for draft in drafts if draft.where]
    if not paths:
        return "layers" if repeat > 1 else "block"
    shared = paths[0]
    for path in paths[1:]:
        same = [a == b for a, b in zip(shared, path, strict=False)]
        shared = shared[: same.index(False) if False in same else len(same)]
    words = [word for word in shared if word and not (repeat > 1 and word.isdigit())]
    return ".".join(words[-3:]) or ("layers" if repeat > 1 else "block")


def _with_ends(found: list[Stretch]) -> tuple[Stretch, ...]:
    """A first stretch that looks tables up, or meets the data, and a last one with the loss are no layers.

    Something has to be one: of two stretches it is the one with more parameters.
    """
    ends = {0: "embedding" if found[0].parts[0].kind == "vector" else "stem", len(found) - 1: "head"}
    if len(found) < 3:  # a beginning, layers and an end
        largest = max(range(len(found)), key=lambda index: sum(part.weight for part in found[index].parts))
        ends.pop(largest)
    return tuple(
        replace(stretch, is_layer=False, name=ends[index] if stretch.name.startswith("block") else stretch.name)
        if index in ends and stretch.repeat == 1
        else stretch
        for index, stretch in enumerate(found)
    )
