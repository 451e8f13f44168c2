"""Element-wise, norm, loss, lookup and optimizer operators, as PyTorch runs them eagerly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, gbps, one_by_one, tables, time_us, words
from dovetail.units import GIGA

# Rows and columns, from what launches decide to what memory does.
GRIDS = ((512, 1024), (512, 8192), (2048, 4096), (8192, 1024), (8192, 4096), (8192, 12288), (32768, 4096))
# Gradients are handed to autograd's thread, and optimizers run in Python: where the device takes longer than that.
LARGE_GRIDS = ((32768, 8192), (32768, 12288), (65536, 4096))
LOGITS = ((4096, 32000), (4096, 128256), (8192, 50304), (8192, 128256))
LOOKUPS = ((2048, 8192), (8192, 4096), (8192, 8192))
VOCABS = (50304, 128256)
UPDATES = tuple(round(share * GIGA) for share in (0.1, 0.3, 1.0))
BAGS = "embedding_bag_v1000000_pool80"
_VOCAB = re.compile(r"_v(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """An operator on a grid, and how many of its bf16 elements it must move in and out for each."""

    call: Callable[[Any, int, int], Callable[[], Any]]
    num_moved: float


def _on(function: Callable[[Any, Any], Any]) -> Callable[[Any, int, int], Callable[[], Any]]:
    """`function` of PyTorch and one grid."""

    def made(gpu: Any, rows: int, cols: int) -> Callable[[], Any]:
        x = gpu.random(rows, cols)
        return lambda: function(gpu.torch, x)

    return made


def _with(function: Callable[[Any, Any, Any], Any], *, is_row: bool = False) -> Callable[[Any, int, int], Any]:
    """`function` of PyTorch, a grid, and another or a row."""

    def made(gpu: Any, rows: int, cols: int) -> Callable[[], Any]:
        x, other = gpu.random(rows, cols), gpu.random(cols) if is_row else gpu.random(rows, cols)
        return lambda: function(gpu.torch, x, other)

    return made


def _norm(name: str, num_weights: int, *, is_backward: bool) -> Callable[[Any, int, int], Callable[[], Any]]:
    """A norm over the last dim, with a weight and, of layer norm, a bias; its gradients are those of all of them."""

    def made(gpu: Any, rows: int, cols: int) -> Callable[[], Any]:
        x = gpu.random(rows, cols).requires_grad_()
        weights = [gpu.random(cols).requires_grad_() for _ in range(num_weights)]
        norm = getattr(gpu.torch.nn.functional, name)
        if not is_backward:
            return lambda: norm(x, (cols,), *weights)
        out = norm(x, (cols,), *weights)
        return _gradient(gpu, out, (x, *weights))

    return made


def _gradient(gpu: Any, out: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    gradient = gpu.torch.randn_like(out)
    return lambda: gpu.torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def _gelu_bwd(gpu: Any, rows: int, cols: int) -> Callable[[], Any]:
    x = gpu.random(rows, cols).requires_grad_()
    return _gradient(gpu, gpu.torch.nn.functional.gelu(x, approximate="tanh"), (x,))


KERNELS = {
    "add": Kernel(call=_with(lambda _, x, y: x + y), num_moved=3),
    "gelu": Kernel(call=_on(lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh")), num_moved=2),
    "gelu_bwd": Kernel(call=_gelu_bwd, num_moved=3),
    "silu_mul": Kernel(call=_with(lambda torch, x, y: torch.nn.functional.silu(x) * y), num_moved=3),
    "bias_add": Kernel(call=_with(lambda _, x, row: x + row, is_row=True), num_moved=2),
    "dropout": Kernel(call=_on(lambda torch, x: torch.nn.functional.dropout(x, 0.1)), num_moved=2.5),
    "layernorm_fwd": Kernel(call=_norm("layer_norm", 2, is_backward=False), num_moved=2),
    "layernorm_bwd": Kernel(call=_norm("layer_norm", 2, is_backward=True), num_moved=3),
    "rmsnorm_fwd": Kernel(call=_norm("rms_norm", 1, is_backward=False), num_moved=2),
    "rmsnorm_bwd": Kernel(call=_norm("rms_norm", 1, is_backward=True), num_moved=3),
    "softmax": Kernel(call=_on(lambda torch, x: torch.softmax(x, -1)), num_moved=2),
    "transpose_copy": Kernel(call=_on(lambda _, x: x.t().contiguous()), num_moved=2),
    "cast_fp32": Kernel(call=_on(lambda _, x: x.float()), num_moved=3),
    "sum_rows": Kernel(call=_on(lambda _, x: x.sum(0)), num_moved=1),
}


def rows(_gpu: Any) -> tuple[Key, ...]:
    """Each kernel on every other grid, neighbours on the others; gradients on large ones."""
    found = [
        words(name, *grid, "bf16")
        for place, name in enumerate(KERNELS)
        for which, grid in enumerate(LARGE_GRIDS if name.endswith("_bwd") else GRIDS)
        if name.endswith("_bwd") or (place + which) % 2 == 0 or which == len(GRIDS) - 1
    ]
    found += [words(f"cross_entropy_{way}", *grid, "bf16") for way in ("fwd", "bwd") for grid in LOGITS]
    found += [
        words(f"embedding_{way}_v{vocab}", *grid, "bf16")
        for vocab in VOCABS
        for way in ("fwd", "bwd")
        for grid in LOOKUPS
    ]
    found += [words("adamw_fused_fp32", 1, size, "fp32") for size in UPDATES]
    return (*found, words(BAGS, 4096, 128, "fp32"))


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    name, num_rows, num_cols = key[0], int(key[1]), int(key[2])
    if name in KERNELS:
        call, moved = KERNELS[name].call(gpu, num_rows, num_cols), 2 * KERNELS[name].num_moved * num_rows * num_cols
    else:
        call, moved = _other(gpu, name, num_rows, num_cols)
    seconds = gpu.median_s(call)
    return time_us(seconds), f"{moved:.0f}", gbps(moved, seconds)


def _other(gpu: Any, name: str, rows: int, cols: int) -> tuple[Callable[[], Any], float]:
    """Losses, lookups and updates, and the bytes that they must move."""
    torch = gpu.torch
    is_backward = "_bwd" in name
    if name.startswith("cross_entropy"):
        x, labels = gpu.random(rows, cols).requires_grad_(), gpu.indices(cols, rows)
        loss = torch.nn.functional.cross_entropy
        if not is_backward:
            return lambda: loss(x, labels), 2.0 * rows * cols
        total = loss(x, labels)
        return lambda: torch.autograd.grad(total, x, retain_graph=True), 4.0 * rows * cols
    if name.startswith("adamw"):
        weight = torch.nn.Parameter(gpu.random(rows, cols, dtype="fp32"))
        weight.grad = torch.randn_like(weight)
        return torch.optim.AdamW([weight], fused=True).step, 28.0 * rows * cols
    match = _VOCAB.search(name)
    assert match is not None, f"{name} is in the sample and no operator of this table"
    vocab = int(match[1])
    if name == BAGS:
        weight, indices = gpu.random(vocab, cols, dtype="fp32"), gpu.indices(vocab, rows, 80)
        return lambda: torch.nn.functional.embedding_bag(indices, weight, mode="sum"), 4.0 * 81 * rows * cols
    weight, indices = gpu.random(vocab, cols).requires_grad_(), gpu.indices(vocab, rows)
    if not is_backward:
        return lambda: torch.nn.functional.embedding(indices, weight), 4.0 * rows * cols
    out = torch.nn.functional.embedding(indices, weight)
    return _gradient(gpu, out, (weight,)), 2.0 * (vocab + rows) * cols


tables.register("vector")(
    MeasuredTable(
        group="vector",
        file="vector.csv",
        columns=("op", "rows", "cols", "dtype", "time_us", "min_bytes", "gbps"),
        num_keys=4,
        rows=rows,
        measure=one_by_one(measure),
        num_quick=24,
    )
)
