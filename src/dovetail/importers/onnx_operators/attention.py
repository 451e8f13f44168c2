"""Attention as one ONNX operator: ONNX's own since opset 23, and those of ONNX Runtime.

Source of the inputs and shapes: onnx.ai's operator pages (Attention, RotaryEmbedding) and ContribOperators.md of ONNX
Runtime (com.microsoft.*).
"""

from __future__ import annotations

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_steps import LEFT_OUT, Call, Shape, Steps, Value, onnx_operators, onnx_shapes


def heads_first(value: Value, heads: int, steps: Steps) -> Value:
    """[batch, positions, heads * width] as [batch, heads, positions, width]."""
    if len(value.shape) == 4:
        return value
    if len(value.shape) != 3 or value.shape[2] % heads:
        raise InvalidInput(f"{steps.label} divides {list(value.shape)} by {heads} heads, which does not go")
    batch, seq, width = value.shape
    cut = steps.view(value, (batch, seq, heads, width // heads))
    made = steps.made((batch, heads, seq, width // heads), value.elem_type)
    steps.write("view", [cut], [made])
    return made


def attend(
    query: Value, key: Value, value: Value, mask: Value, made: Value, steps: Steps, *, is_causal: bool
) -> None:  # fmt: skip
    """The step on heads, and its result as the node makes it: heads apart, or side by side again."""
    batch, heads, seq, _ = query.shape
    result = (batch, heads, seq, value.shape[-1])
    inputs = [query, key, value] + ([mask] if mask.name else [])
    if made.shape == result:
        steps.write("attention", inputs, [made], is_causal=is_causal, dropout=0.0)
        return
    found = steps.made(result, made.elem_type)
    steps.write("attention", inputs, [found], is_causal=is_causal, dropout=0.0)
    swapped = steps.made((batch, seq, heads, value.shape[-1]), made.elem_type)
    steps.write("view", [found], [swapped])
    steps.write("view", [swapped], [made])


def num_heads(call: Call, name: str, default: int = 0) -> int:
    heads = call.integer(name, default)
    if heads < 1:
        raise InvalidInput(f"{call.label}: {name} must be at least 1; got {heads}")
    return heads


def no_cache(call: Call, *places: int) -> None:
    for place in places:
        if call.has(place) and call[place].num_elements:
            raise NotModelled(
                f"{call.label} reads earlier positions, which training has none of; export without a cache"
            )


@onnx_operators.register("Attention")
def attention(call: Call, steps: Steps) -> None:
    no_cache(call, 4, 5)
    query, key, value = call[0], call[1], call[2]
    if len(query.shape) == 3:
        heads, kv_heads = num_heads(call, "q_num_heads"), num_heads(call, "kv_num_heads")
        query, key, value = (
            heads_first(tensor, count, steps) for tensor, count in ((query, heads), (key, kv_heads), (value, kv_heads))
        )
    mask = call.inputs[3] if call.has(3) else LEFT_OUT
    attend(query, key, value, mask, call.outputs[0], steps, is_causal=bool(call.integer("is_causal", 0)))


@onnx_shapes.register("com.microsoft.Attention")
def packed_shapes(call: Call) -> list[tuple[Shape, int]]:
    batch, seq, width = call.dims(0, 3)
    widths = _packed_widths(call)
    if call.dims(1, 2) != (width, sum(widths)):
        message = f"its weight must be {width} by {sum(widths)}; got {list(call[1].shape)}"
        raise InvalidInput(f"{call.label}: {message}")
    return [((batch, seq, widths[2]), call[0].elem_type)]


def _packed_widths(call: Call) -> tuple[int, ...]:
    widths = call.integers("qkv_hidden_sizes") or (call.dims(1, 2)[1] // 3,) * 3
    if len(widths) != 3:
        raise InvalidInput(f"{call.label}: qkv_hidden_sizes must be three numbers; got {list(widths)}")
    return widths


@onnx_operators.register("com.microsoft.Attention")
def packed_attention(call: Call, steps: Steps) -> None:
    """The product with the weights of queries, keys and values side by side, and the attention of what it makes."""
    no_cache(call, 4)
    batch, seq, _ = call.dims(0, 3)
    heads = num_heads(call, "num_heads")
    made = steps.made((batch, seq, call[1].shape[1]), call[0].elem_type)
    steps.write("linear", [call[0], call[1], *(call.inputs[2:3] if call.has(2) else ())], [made], turned=False)
    widths = _packed_widths(call)
    parts = [steps.made((batch, seq, width), call[0].elem_type) for width in widths]
    steps.write("view", [made], parts)
    query, key, value = (heads_first(part, heads, steps) for part in parts)
    mask = call.inputs[5] if call.has(5) else LEFT_OUT
    attend(query, key, value, mask, call.outputs[0], steps, is_causal=bool(call.integer("unidirectional", 0)))


@onnx_shapes.register("com.microsoft.MultiHeadAttention")
def multi_head_shapes(call: Call) -> list[tuple[Shape, int]]:
    _apart(call)
    batch, seq, _ = call.dims(0, 3)
    if len(call[2].shape) == 4:
        return [((batch, seq, call[2].shape[1] * call[2].shape[3]), call[0].elem_type)]
    return [((batch, seq, call.dims(2, 3)[2]), call[0].elem_type)]


@onnx_operators.register("com.microsoft.MultiHeadAttention")
def multi_head_attention(call: Call, steps: Steps) -> None:
    _apart(call)
    no_cache(call, 6, 7)
    heads = num_heads(call, "num_heads")
    tensors = [call[0], call[1], call[2]]
    if call.has(3):
        tensors = [_with_bias(tensor, call, place, steps) for place, tensor in enumerate(tensors)]
    query, key, value = (heads_first(tensor, heads, steps) for tensor in tensors)
    mask = call.inputs[5] if call.has(5) else LEFT_OUT
    attend(query, key, value, mask, call.outputs[0], steps, is_causal=bool(call.integer("unidirectional", 0)))


def _with_bias(tensor: Value, call: Call, place: int, steps: Steps) -> Value:
    made = steps.made(tensor.shape, tensor.elem_type)
    bias = steps.part(call[3], f"{place}", (tensor.shape[-1],))
    steps.write("add", [tensor, bias], [made])
    return made


def _apart(call: Call) -> None:
    if not call.has(1) or not call.has(2):
        raise NotModelled(f"{call.label} takes queries, keys and values packed in one tensor, which is not modelled")


@onnx_shapes.register("com.microsoft.GroupQueryAttention")
def group_query_shapes(call: Call) -> list[tuple[Shape, int]]:
    batch, seq, width = call.dims(0, 3)
    heads, kv_heads = num_heads(call, "num_heads"), num_heads(call, "kv_num_heads")
    if not call.has(1):
        size = width // (heads + 2 * kv_heads)
        width = size * heads
    else:
        size = width // heads
    cache = (batch, kv_heads, seq, size)
    return [((batch, seq, width), call[0].elem_type), (cache, call[0].elem_type), (cache, call[0].elem_type)]


@onnx_operators.register("com.microsoft.GroupQueryAttention")
def group_query_attention(call: Call, steps: Steps) -> None:
    """Causal attention of several heads on fewer keys and values, rotated by position first where the node says so."""
    no_cache(call, 3, 4)
    heads, kv_heads = num_heads(call, "num_heads"), num_heads(call, "kv_num_heads")
    query, key, value = _query_key_value(call, heads, kv_heads, steps)
    query, key, value = (
        heads_first(tensor, count, steps) for tensor, count in ((query, heads), (key, kv_heads), (value, kv_heads))
    )
    if call.integer("do_rotary", 0):
        query, key = (
            rotated(tensor, call[7], call[8], steps.made(tensor.shape, tensor.elem_type), steps)
            for tensor in (query, key)
        )
    for place, tensor in ((1, key), (2, value)):
        if len(call.outputs) > place and call.outputs[place].name:
            steps.write("view", [tensor], [call.outputs[place]])
    attend(query, key, value, LEFT_OUT, call.outputs[0], steps, is_causal=True)


def _query_key_value(call: Call, heads: int, kv_heads: int, steps: Steps) -> tuple[Value, Value, Value]:
    if call.has(1):
        return call[0], call[1], call[2]
    batch, seq, width = call[0].shape
    size = width // (heads + 2 * kv_heads)
    query, key, value = (
        steps.made((batch, seq, count * size), call[0].elem_type) for count in (heads, kv_heads, kv_heads)
    )
    steps.write("view", [call[0]], [query, key, value])
    return query, key, value


def rotated(tensor: Value, cosines: Value, sines: Value, made: Value, steps: Steps) -> Value:
    """Rotary positions: x * cos + swapped(x) * sin."""
    first, swapped, second = (steps.made(tensor.shape, tensor.elem_type) for _ in range(3))
    steps.write("mul", [tensor, cosines], [first])
    steps.write("gather", [tensor], [swapped])
    steps.write("mul", [swapped, sines], [second])
    steps.write("add", [first, second], [made])
    return made


@onnx_operators.register("RotaryEmbedding")
def rotary(call: Call, steps: Steps) -> None:
    rotated(call[0], call[1], call[2], call.outputs[0], steps)


@onnx_operators.register("com.microsoft.RotaryEmbedding")
def rotary_with_positions(call: Call, steps: Steps) -> None:
    rotated(call[0], call[2], call[3], call.outputs[0], steps)


@onnx_shapes.register("com.microsoft.RotaryEmbedding")
def rotary_shapes(call: Call) -> list[tuple[Shape, int]]:
    return [(call[0].shape, call[0].elem_type)]
