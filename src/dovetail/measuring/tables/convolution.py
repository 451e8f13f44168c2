"""Convolutions of ResNet-50 in bf16 with channels last: forward, input gradient and weight gradient."""

from __future__ import annotations

from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, tflops, time_us, words

# Input and output channels, window, stride, side of the image, and how often ResNet-50 has it.
SHAPES = (
    (3, 64, 7, 2, 224, 1),
    (64, 64, 3, 1, 56, 3),
    (64, 256, 1, 1, 56, 3),
    (128, 128, 3, 2, 56, 1),
    (512, 128, 1, 1, 28, 3),
    (256, 256, 3, 1, 14, 5),
    (256, 1024, 1, 1, 14, 6),
    (1024, 2048, 1, 2, 14, 1),
    (512, 512, 3, 1, 7, 2),
)
BATCHES = (128, 256)  # smaller ones wait for the host


def rows(_gpu: Any) -> tuple[Key, ...]:
    """The image itself has no gradient."""
    return tuple(
        words(batch, *shape, way)
        for batch in BATCHES
        for shape in SHAPES
        for way in ("fwd", "dgrad", "wgrad")
        if way != "dgrad" or shape[0] > 3
    )


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    batch, ins, outs, window, stride, side = (int(size) for size in key[:6])
    torch = gpu.torch
    last, pad = torch.channels_last, (window - 1) // 2
    x = gpu.random(batch, ins, side, side).to(memory_format=last)
    weight = gpu.random(outs, ins, window, window).to(memory_format=last)

    def forward() -> Any:
        return torch.nn.functional.conv2d(x, weight, None, stride, pad)

    out = forward()
    flop = 2.0 * out.numel() * ins * window**2
    if key[7] == "fwd":
        seconds = gpu.median_s(forward)
    else:
        gradient = torch.randn_like(out)
        wanted = [key[7] == "dgrad", key[7] == "wgrad", False]
        sizes = ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1)
        backward = torch.ops.aten.convolution_backward
        seconds = gpu.median_s(lambda: backward(gradient, x, weight, None, *sizes, wanted))
    return time_us(seconds), tflops(flop, seconds)


tables.register("convolution")(
    MeasuredTable(
        group="convolution",
        file="conv_resnet50.csv",
        columns=("batch", "cin", "cout", "kernel", "stride", "hw_in", "repeat", "pass", "time_us", "tflops"),
        num_keys=8,
        rows=rows,
        measure=one_by_one(measure),
    )
)
