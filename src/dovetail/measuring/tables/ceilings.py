"""What the card reaches at best: copies and sums of buffers, and square products."""

from __future__ import annotations

from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, gbps, one_by_one, tables, tflops, time_us, words
from dovetail.measuring.tables.gemm import product
from dovetail.units import MEBI

BUFFERS = (1, 4, 16, 64, 256, 1024, 4096)  # each of so many MiB, as rows name it
SIDES = (1024, 2048, 4096, 8192, 16384)
UNITS = {"copy": "GB/s(read+write)", "add": "GB/s(2 read+1 write)", "gemm_bf16": "TFLOP/s"}


def rows(_gpu: Any) -> tuple[Key, ...]:
    buffers = [words(kind, f"{size}MiB") for size in BUFFERS for kind in ("copy", "add")]
    return (*buffers, *(words("gemm_bf16", side) for side in SIDES))


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    kind, size = key
    if kind == "gemm_bf16":
        side = int(size)
        seconds = gpu.median_s(product(gpu, side, side, side, "nn", "bf16"))
        return time_us(seconds), tflops(2.0 * side**3, seconds), UNITS[kind]
    num_bytes = int(int(size.removesuffix("MiB")) * MEBI)
    x, out = (gpu.random(num_bytes // 2) for _ in range(2))
    if kind == "copy":
        seconds, num_moved = gpu.median_s(lambda: out.copy_(x)), 2
    else:
        y = gpu.random(num_bytes // 2)
        seconds, num_moved = gpu.median_s(lambda: gpu.torch.add(x, y, out=out)), 3
    return time_us(seconds), gbps(num_moved * num_bytes, seconds), UNITS[kind]


tables.register("ceilings")(
    MeasuredTable(
        group="ceilings",
        file="ceilings.csv",
        columns=("kind", "size", "time_us", "rate", "unit"),
        num_keys=2,
        rows=rows,
        measure=one_by_one(measure),
    )
)
