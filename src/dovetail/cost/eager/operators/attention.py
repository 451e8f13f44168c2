"""Scaled dot-product attention by the kernels that PyTorch 2.11 chooses from, forward and backward."""

from __future__ import annotations

from dovetail.cost.eager.launches import (
    AttentionKernel,
    Launched,
    VectorKernel,
    distinct_bytes,
    flag,
    item_bytes,
    number,
    register,
    tensors,
)
from dovetail.errors import NotModelled
from dovetail.workload.dispatched import DispatchedOp, TensorMeta

# Fitted on sdpa_* of eager_ops.csv (one H200, 57 rows); the plain kernels are those of `cost.attention`.
MASKED_FRAC = {64: 0.56, 128: 0.56, 256: 0.36}  # pace under a mask that is read, by the width that heads are padded to
MASKED_BACKWARD_FRAC = {64: 0.68, 128: 0.52, 256: 0.50}
EFFICIENT_FRAC = 0.50  # of the best, by CUTLASS's kernel, which does not use Hopper's units (cost.attention)
DROPOUT_SLOTS = {64: 38.0, 128: 38.0, 256: 150.0}  # a score: Philox, by width; registers run out beyond 128
DROPOUT_BACKWARD_SLOTS = 20.0
MASKED_DROPOUT_SLOTS = {64: 38.0, 128: 56.0, 256: 210.0}  # the same in the kernel for masks
MASKED_DROPOUT_BACKWARD_SLOTS = {64: 17.0, 128: 75.0, 256: 62.0}
UNALIGNED_FRAC = 0.45  # pace of the kernel for masks where rows of the mask are no whole vectors (197 keys: 3 rows)
MASK_ALIGNMENT = 8  # elements (sdp_utils, preprocess_mask)
MAX_FLASH_WIDTH = 256
FLASH_DTYPES = ("bf16", "fp16")


def sdpa_backend(query: TensorMeta, key: TensorMeta, *, is_mask_learned: bool = False) -> str:
    """The kernel that PyTorch 2.11 takes on a GPU since Hopper: `cudnn`, masked or not, `efficient` or `math`.

    A mask that needs a gradient, a dtype of 32 bits and a width that is no multiple of 8 each rule kernels out.
    """
    width = query.shape[-1]
    if query.dtype not in FLASH_DTYPES:
        return "efficient" if query.dtype == "fp32" and not is_mask_learned else "math"
    if is_mask_learned:
        return "math"
    if width % MASK_ALIGNMENT or width > MAX_FLASH_WIDTH or key.shape[-1] != width:
        return "efficient" if not width % MASK_ALIGNMENT else "math"
    return "cudnn"


def _width(width: int) -> int:
    return next((known for known in (64, 128) if width <= known), 256)


def _kernel(
    op: DispatchedOp, query: TensorMeta, key: TensorMeta, value: TensorMeta, *, bias: TensorMeta | None,
    is_backward: bool, is_efficient: bool,
) -> AttentionKernel:  # fmt: skip
    if len(query.shape) != 4:
        raise NotModelled(f"{op.name} with {len(query.shape)} dims is not modelled; batch, heads, sequence, width are")
    b, h, s, d = query.shape
    kv_heads, t = key.shape[1], key.shape[2]
    dropout_p, is_causal = number(op, "dropout_p"), flag(op, "is_causal")
    width, slots = _width(d), 0.0
    pace = EFFICIENT_FRAC if is_efficient else 1.0
    if bias is not None:
        pace = (MASKED_BACKWARD_FRAC if is_backward else MASKED_FRAC)[width]
        if bias.shape[-1] % MASK_ALIGNMENT and not is_backward:
            pace *= UNALIGNED_FRAC
    if dropout_p > 0:
        if bias is not None:
            slots = (MASKED_DROPOUT_BACKWARD_SLOTS if is_backward else MASKED_DROPOUT_SLOTS)[width]
        else:
            slots = DROPOUT_BACKWARD_SLOTS if is_backward else DROPOUT_SLOTS[width]
    queries = float(query.num_elements * item_bytes(query))
    keys = distinct_bytes(key) + distinct_bytes(value)
    mask = distinct_bytes(bias) if bias is not None else 0.0
    return AttentionKernel(
        name=f"{'efficient' if is_efficient else 'flash'} attention{' backward' if is_backward else ''}",
        heads=b * h,
        queries=s,
        keys=t,
        key_width=d,
        value_width=value.shape[-1],
        kv_frac=kv_heads / h,
        work_frac=_work_frac(s, t) if is_causal else 1.0,
        is_backward=is_backward,
        dtype=query.dtype,
        in_bytes=(queries * (3 if is_backward else 1)) + keys + mask,
        out_bytes=queries + (keys if is_backward else 0.0),
        pace_frac=pace,
        score_slots=slots,
    )


def _work_frac(queries: int, keys: int) -> float:
    """Share of scores under a causal mask whose diagonal starts at the first key."""
    return (
        0.5
        if queries == keys
        else max(min(queries, keys) / 2, 1) / keys
        if queries < keys
        else 1 - keys / (2 * queries)
    )


FORWARD = {
    "aten._scaled_dot_product_flash_attention": False,
    "aten._scaled_dot_product_cudnn_attention": False,
    "aten._scaled_dot_product_efficient_attention": True,
    "aten._flash_attention_forward": False,
    "aten._efficient_attention_forward": True,
    "aten._scaled_dot_product_fused_attention_overrideable": False,
}
CLEARED = VectorKernel(name="attention start")  # a kernel that clears what tiles are counted with


@register(*FORWARD)
def attention(op: DispatchedOp) -> Launched:
    packet = op.name.rpartition(".")[0]
    query, key, value = tensors(op)[:3]
    if packet in ("aten._flash_attention_forward", "aten._efficient_attention_forward"):
        query, key, value = (_heads_first(one) for one in (query, key, value))
    bias = op.inputs[3] if len(op.inputs) > 3 and "flash" not in packet else None
    own = _kernel(op, query, key, value, bias=bias, is_backward=False, is_efficient=FORWARD[packet])
    return (own,) if FORWARD[packet] else (CLEARED, own)


def _heads_first(tensor: TensorMeta) -> TensorMeta:
    b, s, h, d = tensor.shape
    strides = tensor.strides
    return TensorMeta(shape=(b, h, s, d), strides=(strides[0], strides[2], strides[1], strides[3]), dtype=tensor.dtype)


BACKWARD = {
    "aten._scaled_dot_product_flash_attention_backward": False,
    "aten._scaled_dot_product_cudnn_attention_backward": False,
    "aten._scaled_dot_product_efficient_attention_backward": True,
}


@register(*BACKWARD)
def attention_backward(op: DispatchedOp) -> Launched:
    """Sums of rows first, then all gradients, then the queries' cast from fp32."""
    packet = op.name.rpartition(".")[0]
    query, key, value = tensors(op)[1:4]
    place = {
        "aten._scaled_dot_product_efficient_attention_backward": 4,
        "aten._scaled_dot_product_cudnn_attention_backward": 8,
    }
    at = place.get(packet, len(op.inputs))
    bias = op.inputs[at] if at < len(op.inputs) else None
    is_efficient = BACKWARD[packet]
    own = _kernel(op, query, key, value, bias=bias, is_backward=True, is_efficient=is_efficient)
    return (CLEARED, VectorKernel(name="attention rowsum"), own, VectorKernel(name="attention cast"))


@register("aten.scaled_dot_product_attention")
def whole_attention(op: DispatchedOp) -> Launched:
    """Where it is recorded whole: the kernel that PyTorch would choose; math is not whole."""
    query, key, value = tensors(op)[:3]
    bias = op.inputs[3] if len(op.inputs) > 3 else None
    backend = sdpa_backend(query, key)
    if backend == "math":
        raise NotModelled(
            f"{op.name} of width {query.shape[-1]} in {query.dtype} runs as several operators; record those"
        )
    own = _kernel(op, query, key, value, bias=bias, is_backward=False, is_efficient=backend == "efficient")
    return (CLEARED, own)
