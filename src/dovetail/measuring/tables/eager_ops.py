"""Operators as eager code runs them one by one: heads of odd vocabularies, pieces of norms, masks.

Of these, odd rows, broadcast operands, layouts and masks decide how fast they are, which tables of plain products and
kernels do not show.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, time_us, words

Calls = tuple[Callable[[], Any], float, float]  # the call, bytes moved once, FLOP
HEADS = ((4096, 1024, 50257), (4096, 1024, 50258), (4096, 1024, 50264), (8192, 768, 30522), (4096, 2048, 151936))
GRIDS = ((8192, 2048), (16384, 1024))
ROTARY = ((2, 4096, 16, 128), (4, 2048, 32, 64))  # batch, positions, heads, width
MASKED = ((16, 16, 1024, 64), (2, 16, 4096, 128))  # batch, heads, positions, width
IMAGES = ((256, 64, 112), (256, 256, 56))  # batch, channels, side
LOGITS = ((4096, 50257), (4096, 128256))
EXPERTS = ((8192, 2048, 1024, 8), (16384, 1024, 2048, 32))  # rows, width, width inside, experts
LAYOUTS = {"nchw": "contiguous_format", "nhwc": "channels_last"}


def _pieces(gpu: Any, rows: int, cols: int) -> dict[str, tuple[Callable[[], Any], float]]:
    """Calls by kind, and the bytes of an element that each moves."""
    torch = gpu.torch
    x, wide, row = gpu.random(rows, cols), gpu.random(rows, cols, dtype="fp32"), gpu.random(cols)
    half = cols // 2
    return {
        "to_fp32": (lambda: x.float(), 6),
        "to_bf16": (lambda: wide.bfloat16(), 6),
        "pow2_fp32": (lambda: wide.pow(2), 8),
        "mean_last_fp32": (lambda: wide.mean(-1, keepdim=True), 4),
        "mul_row_fp32": (lambda: wide * wide[:, :1], 8),
        "mul_col_bf16": (lambda: row * x, 4),
        "mul_mixed": (lambda: wide * row, 8),
        "neg": (lambda: -x, 4),
        "cat_halves": (lambda: torch.cat((-x[:, half:], x[:, :half]), -1), 8),
        "dropout": (lambda: torch.nn.functional.dropout(x, 0.1), 5),
        "tanh": (lambda: torch.tanh(x), 4),
        "softmax_fp32": (lambda: torch.softmax(wide, -1), 8),
        "sum_rows_fp32": (lambda: wide.sum(0), 4),
        "contiguous_t": (lambda: x.t().contiguous(), 4),
    }


PIECES = (
    "to_fp32", "to_bf16", "pow2_fp32", "mean_last_fp32", "mul_row_fp32", "mul_col_bf16", "mul_mixed", "neg",
    "cat_halves", "dropout", "tanh", "softmax_fp32", "sum_rows_fp32", "contiguous_t",
)  # fmt: skip


def rows(_gpu: Any) -> tuple[Key, ...]:
    found = [("head", "x".join(map(str, one)), way) for one in HEADS for way in ("fwd", "dgrad", "wgrad")]
    found += [(kind, f"{r}x{c}", "fwd") for r, c in GRIDS for kind in PIECES]
    found += [
        (kind, f"b{b} h{h} s{s} d{d}", "fwd")
        for b, s, h, d in ROTARY
        for kind in ("rope_mul", "rope_rotate", "permute_contiguous")
    ]
    found += [
        (f"sdpa_{kind}", f"b{b} h{h} s{s} d{d}", way)
        for b, h, s, d in MASKED
        for kind in ("mask", "dropout_causal")
        for way in ("fwd", "bwd")
    ]
    found += [
        (kind, f"{layout} n{n} c{c} {side}", way)
        for layout in LAYOUTS
        for n, c, side in IMAGES
        for kind in ("batch_norm", "relu", "max_pool3s2")
        for way in ("fwd", "bwd")
    ]
    found += [("cross_entropy_fp32", f"{r}x{c}", way) for r, c in LOGITS for way in ("fwd", "bwd")]
    found += [("grouped_mm", f"{r}x{h}x{f} e{e}", "fwd") for r, h, f, e in EXPERTS]
    return tuple(words(*one) for one in found)


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    kind, what, way = key
    sizes = [int(size) for size in re.findall(r"[0-9]+", what)]
    if kind in PIECES:
        call, element_bytes = _pieces(gpu, *sizes)[kind]
        found: Calls = (call, float(element_bytes * sizes[0] * sizes[1]), 0.0)
    elif kind.startswith("sdpa"):
        found = _attention(gpu, kind, way, *sizes)
    elif what.startswith(tuple(LAYOUTS)):
        found = _images(gpu, kind, way, what[:4], *sizes)
    else:
        made: Callable[..., Calls] = _OTHERS.get(kind, _rotary)
        found = made(gpu, kind, way, *sizes)
    call, moved_bytes, flop = found
    return time_us(gpu.median_s(call)), f"{moved_bytes:.0f}", f"{flop:.0f}"


def _head(gpu: Any, _kind: str, way: str, tokens: int, hidden: int, vocab: int) -> Calls:
    x, weight, gradient = gpu.random(tokens, hidden), gpu.random(vocab, hidden), gpu.random(tokens, vocab)
    call = {
        "fwd": lambda: gpu.torch.nn.functional.linear(x, weight),
        "dgrad": lambda: gradient @ weight,
        "wgrad": lambda: gradient.t() @ x,
    }[way]
    moved = 2.0 * (tokens * hidden + vocab * hidden + tokens * vocab)
    return call, moved, 2.0 * tokens * hidden * vocab


def _loss(gpu: Any, _kind: str, way: str, tokens: int, vocab: int) -> Calls:
    torch = gpu.torch
    x, labels = gpu.random(tokens, vocab, dtype="fp32").requires_grad_(), gpu.indices(vocab, tokens)
    if way == "fwd":
        return lambda: torch.nn.functional.cross_entropy(x, labels), 8.0 * tokens * vocab, 0.0
    total = torch.nn.functional.cross_entropy(x, labels)
    return lambda: torch.autograd.grad(total, x, retain_graph=True), 8.0 * tokens * vocab, 0.0


def _grouped(gpu: Any, _kind: str, _way: str, num_rows: int, hidden: int, wide: int, experts: int) -> Calls:
    torch = gpu.torch
    a, weights = gpu.random(num_rows, hidden), gpu.random(experts, hidden, wide)
    ends = torch.arange(1, experts + 1, device=gpu.device, dtype=torch.int32) * (num_rows // experts)
    moved = 2.0 * (a.numel() + weights.numel() + num_rows * wide)
    return lambda: torch._grouped_mm(a, weights, offs=ends), moved, 2.0 * num_rows * hidden * wide


def _rotary(gpu: Any, kind: str, _way: str, batch: int, heads: int, seq: int, width: int) -> Calls:
    x, cosines = gpu.random(batch, seq, heads, width).transpose(1, 2), gpu.random(batch, 1, seq, width)
    half, elements = width // 2, float(batch * heads * seq * width)
    if kind == "rope_mul":
        return lambda: x * cosines, 4 * elements, 0.0
    if kind == "rope_rotate":
        return lambda: gpu.torch.cat((-x[..., half:], x[..., :half]), -1), 8 * elements, 0.0
    return lambda: x.contiguous(), 4 * elements, 0.0


def _attention(gpu: Any, kind: str, way: str, batch: int, heads: int, seq: int, width: int) -> Calls:
    torch = gpu.torch
    q, k, v = (gpu.random(batch, heads, seq, width).requires_grad_() for _ in range(3))
    mask = torch.zeros(batch, 1, seq, seq, device=gpu.device, dtype=gpu.dtype("bf16")) if "mask" in kind else None
    drop = 0.1 if "dropout" in kind else 0.0

    def forward() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=drop, is_causal="causal" in kind
        )

    flop = 4.0 * batch * heads * seq**2 * width
    if way == "fwd":
        return forward, 0.0, flop
    out = forward()
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), 0.0, 2.5 * flop


def _images(gpu: Any, kind: str, way: str, layout: str, batch: int, channels: int, side: int) -> Calls:
    torch = gpu.torch
    x = gpu.random(batch, channels, side, side).to(memory_format=getattr(torch, LAYOUTS[layout])).requires_grad_()
    norm = torch.nn.BatchNorm2d(channels).to(gpu.device, gpu.dtype("bf16")).train()
    call = {
        "batch_norm": norm,
        "relu": torch.relu,
        "max_pool3s2": lambda images: torch.nn.functional.max_pool2d(images, 3, 2, 1),
    }[kind]
    out = call(x)
    once = 2.0 * x.numel()
    moved = {"batch_norm": (3 * once, 4 * once), "relu": (2 * once, 3 * once)}.get(
        kind, (once + 2.0 * out.numel(), once + 4.0 * out.numel())
    )
    if way == "fwd":
        return lambda: call(x), moved[0], 0.0
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, x, gradient, retain_graph=True), moved[1], 0.0


_OTHERS: dict[str, Callable[..., Calls]] = {"head": _head, "cross_entropy_fp32": _loss, "grouped_mm": _grouped}
tables.register("eager_ops")(
    MeasuredTable(
        group="eager",
        file="eager_ops.csv",
        columns=("kind", "what", "pass", "time_us", "bytes", "flop"),
        num_keys=3,
        rows=rows,
        measure=one_by_one(measure),
        num_quick=20,
    )
)
