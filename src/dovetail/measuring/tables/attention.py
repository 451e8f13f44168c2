"""Fused attention in bf16, forward and backward, by the kernel that PyTorch selects."""

from __future__ import annotations

from random import Random
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, tflops, time_us, words

BATCHES, HEADS, SEQS, WIDTHS = (1, 4, 16), (4, 8, 16, 32, 96), (512, 1024, 2048, 4096, 8192, 16384), (64, 128)
GROUPED = ((1, 32, 8, 8192, 128), (4, 32, 8, 4096, 128), (1, 8, 1, 8192, 128))  # several heads share keys and values
FULL = ((8, 16, 16, 128, 64), (64, 16, 16, 512, 64))  # without a causal mask, as encoders have it
NUM_CAUSAL = 27
MOST_FLOP = 2e12  # style: a bound; some 10 ms of a call
BACKWARD_RATIO = 2.5  # five products for two, scores among them once more
LEAST_BACKWARD_FLOP = 6e10  # style: a bound; of the forward pass: below, the host decides, whose pace steps tell
SEED = 25


def rows(_gpu: Any) -> tuple[Key, ...]:
    rng = Random(SEED)
    shapes: dict[tuple[int, ...], None] = {}
    while len(shapes) < NUM_CAUSAL:
        batch, heads, seq, width = (rng.choice(one) for one in (BATCHES, HEADS, SEQS, WIDTHS))
        if 2.0 * batch * heads * seq**2 * width <= MOST_FLOP:
            shapes[batch, heads, heads, seq, width] = None
    every = [*((*shape, 1) for shape in (*shapes, *GROUPED)), *((*one, 0) for one in FULL)]
    return tuple(
        words(*shape, way)
        for shape in every
        for way in ("fwd", "bwd")
        if way == "fwd" or _flop(*shape) >= LEAST_BACKWARD_FLOP
    )


def _flop(batch: int, heads: int, _kv_heads: int, seq: int, width: int, is_causal: int) -> float:
    """Of the forward pass, half of the scores where they are causal."""
    return 4.0 * batch * heads * seq**2 * width * (0.5 if is_causal else 1.0)


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    batch, heads, kv_heads, seq, width, is_causal = (int(size) for size in key[:6])
    torch = gpu.torch
    q, k, v = (gpu.random(batch, num, seq, width).requires_grad_() for num in (heads, kv_heads, kv_heads))

    def forward() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=bool(is_causal), enable_gqa=heads != kv_heads
        )

    flop = _flop(batch, heads, kv_heads, seq, width, is_causal)
    if key[6] == "fwd":
        seconds = gpu.median_s(forward)
    else:
        out = forward()
        gradient = torch.randn_like(out)
        seconds = gpu.median_s(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
        flop *= BACKWARD_RATIO
    return time_us(seconds), tflops(flop, seconds)


tables.register("attention")(
    MeasuredTable(
        group="attention",
        file="attention.csv",
        columns=("batch", "heads", "kv_heads", "seq", "head_dim", "causal", "pass", "time_us", "model_tflops"),
        num_keys=7,
        rows=rows,
        measure=one_by_one(measure),
    )
)
