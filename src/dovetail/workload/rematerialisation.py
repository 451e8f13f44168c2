"""What a policy by tensor keeps of a layer and what it runs again: a walk over the layer's own graph.

A tensor that a gradient needs and that is not kept is formed again from its inputs, these from theirs, up to what is
kept. What nothing asks for is neither run nor kept: XLA removes dead code on both sides, so the last product of a
feed-forward is not taken twice, and its output not kept even where a policy names it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from dovetail.workload.checkpoint_policies import LAYER_INPUT, OFFLOAD, places_of
from dovetail.workload.graph import FloatArray, K, N, Need, Ops, Phase, V
from dovetail.workload.operators import ATTENTION_CODES, OPERATORS, Unit, code_of
from dovetail.workload.recompute import AGAIN, num_weights

ALL_FRAC = 0.999  # of a tensor: three thirds of it are not quite one
_INPUT = code_of("input")
_PRODUCTS = tuple(code_of(kind) for kind in ("linear", "expert_linear"))
_SPLIT_ATTENTION = "weighted_values"  # the last operator of attention whose scores are written out
_OUTPUTS = ("attention_out", "cross_out")
_LOW_RANK = {"q_down": "query_wa_proj", "kv_down": "kv_wa_proj"}
# Operators behind a product that work on its columns alone: of columns that are kept nothing need be formed again.
_BY_COLUMN = tuple(code_of(kind) for kind in ("rope", "concat", "rmsnorm", "layernorm"))
_BEFORE_RESIDUAL = tuple(code_of(kind) for kind in ("reduce", "dropout", "cast"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rematerialised:
    """Shares of each operator of a block: of its output on the device and on the host, and of it that runs again.

    All but `again_frac` are of forward rows, and nothing elsewhere; `again_frac` is of forward rows too, whose copies
    among the rows of recompute have the same.
    """

    device_frac: FloatArray
    host_frac: FloatArray
    again_frac: FloatArray


def rematerialised(ops: Ops, policy: str) -> Rematerialised:
    """Of the rows of one layer, edges among them, under `policy`, a name or tensors with their places."""
    forward = np.flatnonzero(ops.phase == Phase.FORWARD)
    feeds, fed_by = forward_edges(ops, forward)
    device, host = (np.zeros(len(ops)) for _ in range(2))
    places = places_of(policy)
    for row in forward[ops.kind[forward] == _INPUT]:
        (host if places.get(LAYER_INPUT) == OFFLOAD else device)[row] = 1.0
    for tensor, rows in _tensor_rows(ops, forward, feeds, fed_by).items():
        if tensor in places:
            for row, frac in rows:
                (host if places[tensor] == OFFLOAD else device)[row] += frac
    return _without_dead(ops, forward, feeds, device, host)


def run_again_frac(ops: Ops, policy: str) -> FloatArray:
    """Share of each row that runs: of what recompute would run again, what `policy` needs; of all else, everything."""
    again = rematerialised(ops, policy).again_frac
    copies: dict[str, list[float]] = defaultdict(list)
    for row in np.flatnonzero(ops.phase == Phase.FORWARD).tolist():
        copies[ops.names[row]].append(float(again[row]))
    seen: Counter[str] = Counter()
    runs = np.ones(len(ops))
    for row in np.flatnonzero(ops.phase == Phase.RECOMPUTE).tolist():
        name = ops.names[row]
        if name.endswith(AGAIN):
            original = name.removesuffix(AGAIN)
            runs[row] = copies[original][seen[original]]
            seen[original] += 1
        else:  # a weight cast or an input scaled, for the product before the colon
            runs[row] = max(copies[name.split(":")[0]], default=1.0)
    return runs


def _without_dead(
    ops: Ops,
    forward: np.ndarray[tuple[int], np.dtype[np.int64]],
    feeds: dict[int, list[int]],
    device: FloatArray,
    host: FloatArray,
) -> Rematerialised:
    """What is needed, from the last row to the first: by gradients, and by what runs again of the rows it feeds."""
    again = np.zeros(len(ops))
    elements = np.maximum(ops.output_elements, 1.0)
    for row in reversed(forward.tolist()):
        needed = 1.0 if ops.need[row] != Need.NONE or ops.kept_bytes_per_element[row] > 0 else 0.0
        for later in feeds[row]:
            is_by_column = ops.kind[later] in _BY_COLUMN and ops.kind[row] in (*_PRODUCTS, *_BY_COLUMN)
            share = min(1.0, elements[later] / elements[row]) if is_by_column else 1.0
            needed += share * (again[later] if is_by_column else float(again[later] > 0))
        needed = min(1.0, needed)
        kept = device[row] + host[row]
        if needed == 0.0:
            device[row] = host[row] = 0.0
        elif OPERATORS[ops.kind[row]].unit != Unit.NONE:
            again[row] = max(0.0, needed - kept) if kept < ALL_FRAC else 0.0
    return Rematerialised(device_frac=device, host_frac=host, again_frac=again)


def _tensor_rows(
    ops: Ops,
    forward: np.ndarray[tuple[int], np.dtype[np.int64]],
    feeds: dict[int, list[int]],
    fed_by: dict[int, list[int]],
) -> dict[str, list[tuple[int, float]]]:
    """The rows whose outputs hold each tensor, with the tensor's share of them."""
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in forward.tolist():
        name = ops.names[row]
        if ops.kind[row] in ATTENTION_CODES or name == _SPLIT_ATTENTION:
            found["context"].append((row, 1.0))
            _take_attended(ops, row, fed_by, found)
        elif name in _OUTPUTS:
            found["out_proj"].append((_residual_behind(ops, row, feeds), 1.0))
        elif name in _LOW_RANK:
            found[_LOW_RANK[name]].append((row, 1.0))
        elif ops.kind[row] in _PRODUCTS and name.endswith("_up") and name not in ("q_up", "kv_up"):
            num_parts = num_weights(ops, row)
            for tensor in ("mlpwi_0", "mlpwi_1")[:num_parts]:
                found[tensor].append((row, 1.0 / num_parts))
        elif ops.kind[row] in _PRODUCTS and name.endswith("_down"):
            found["mlpwo"].append((row, 1.0))
    return found


def _take_attended(
    ops: Ops, attention: int, fed_by: dict[int, list[int]], found: dict[str, list[tuple[int, float]]]
) -> None:
    """What attention reads, as it reads it, so with positions: queries, and keys beside values, or all three in one."""
    inputs = [_before_network(ops, row, fed_by) for row in fed_by[attention]]
    if ops.names[attention] == _SPLIT_ATTENTION:  # reads scores and values; queries and keys are before the scores
        scores = max(inputs)  # the weights, which stand behind the values
        while ops.names[scores] != "scores":
            scores = fed_by[scores][0]
        inputs = [_before_network(ops, row, fed_by) for row in fed_by[scores]]
        key_width, value_width = float(ops.extents[scores, K]), float(ops.extents[attention, N])
    else:
        key_width, value_width = float(ops.extents[attention, K]), float(ops.extents[attention, V])
    widths = {"key_proj": key_width, "value_proj": value_width}
    if len(inputs) == 1:
        widths = {"query_proj": key_width} | widths
    else:
        found["query_proj"].append((inputs[0], 1.0))
    for tensor, width in widths.items():
        found[tensor].append((inputs[-1], width / sum(widths.values())))


def _before_network(ops: Ops, row: int, fed_by: dict[int, list[int]]) -> int:
    while OPERATORS[ops.kind[row]].unit == Unit.NETWORK:
        [row] = fed_by[row]
    return row


def _residual_behind(ops: Ops, row: int, feeds: dict[int, list[int]]) -> int:
    """The sum of a layer's input and what attention adds: as large as that, as easily kept, and whole on no device
    where tensor parallelism leaves parts of it. Where nothing is added behind `row`, that.
    """
    at = row
    while len(feeds[at]) == 1:
        [at] = feeds[at]
        if ops.kind[at] == code_of("add"):
            return at
        if ops.kind[at] not in _BEFORE_RESIDUAL:
            return row
    return row


def forward_edges(
    ops: Ops, forward: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Among forward rows: whom each feeds, and by whom each is fed, in the order in which they stand."""
    is_forward = np.zeros(len(ops), dtype=bool)
    is_forward[forward] = True
    feeds: dict[int, list[int]] = defaultdict(list)
    fed_by: dict[int, list[int]] = defaultdict(list)
    for source in forward.tolist():
        for target in ops.edge_to[ops.edge_start[source] : ops.edge_start[source + 1]].tolist():
            if is_forward[target]:
                feeds[source].append(target)
                fed_by[target].append(source)
    return feeds, fed_by
