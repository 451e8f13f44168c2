"""Networks over images: feature maps, the operators on them, and the network that strings parts together.

Images are split over data-parallel ranks only; every operator keeps its images whole. A convolution is one product:
output pixels by output channels over window times input channels, once a group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from dovetail.errors import InvalidInput
from dovetail.workload.boundaries import kept_once
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph, Rule
from dovetail.workload.layers import Sample, whole
from dovetail.workload.rows import Extent

Window = tuple[int, int]  # height and width
NUM_COLOURS = 3
NUM_CLASSES = 1000  # ImageNet-1k
_RULES = tuple(Rule(axis=axis, label="parts of an image", count=1) for axis in (Axis.TENSOR, Axis.CONTEXT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """The feature maps of a batch: which row of the block gives them, and their shape for one image."""

    row: int = 0
    height: int
    width: int
    channels: int

    @property
    def pixels(self) -> int:
        return self.height * self.width

    @property
    def elements(self) -> int:
        return self.pixels * self.channels


def refuse_positions(name: str, sample: Sample) -> None:
    if sample.seq != 1:
        raise InvalidInput(f"{name} reads whole images, so seq must be 1; got {sample.seq}; leave seq out", "seq")


def _outputs(side: int, window: int, stride: int, padding: int) -> int:
    return (side + 2 * padding - window) // stride + 1


def _covered(side: int, window: int, stride: int, padding: int) -> int:
    """Input pixels along one side that some window covers; the border of zeros is not among them."""
    num_outputs = _outputs(side, window, stride, padding)
    if window < stride:
        return num_outputs * window
    last = (num_outputs - 1) * stride - padding + window
    return min(last, side)


@dataclass(slots=True)
class ImageBuilder:
    """Adds operators over feature maps to one block."""

    block: BlockBuilder
    sample: Sample

    def rows(self, pixels: int) -> Extent:
        return self.sample.batch * pixels, Axis.DATA

    def convolution(
        self,
        x: Maps,
        channels: int,
        window: Window,
        *,
        name: str,
        stride: int = 1,
        groups: int = 1,
        is_padded: bool = True,
        bias: bool = False,
    ) -> Maps:
        """Padded windows are centred on the pixels of the input; unpadded ones lie wholly inside it."""
        padding = ((window[0] - 1) // 2, (window[1] - 1) // 2) if is_padded else (0, 0)
        height = _outputs(x.height, window[0], stride, padding[0])
        width = _outputs(x.width, window[1], stride, padding[1])
        in_width = window[0] * window[1] * x.channels // groups
        covered = _covered(x.height, window[0], stride, padding[0]) * _covered(x.width, window[1], stride, padding[1])
        row = self.block.convolution(
            x.row,
            name=name,
            groups=groups,
            pixels=self.rows(height * width),
            in_width=in_width,
            out_width=channels // groups,
            input_frac=covered / (height * width * window[0] * window[1]),
            window=window[0] * window[1],
            stride=stride,
            bias=bias,
        )
        return Maps(row=row, height=height, width=width, channels=channels)

    def convolution_unit(
        self,
        x: Maps,
        channels: int,
        window: Window,
        *,
        name: str,
        stride: int = 1,
        groups: int = 1,
        is_padded: bool = True,
        activation: str = "relu",
    ) -> Maps:
        """Convolution, batch norm and, unless `activation` is empty, an activation."""
        x = self.convolution(x, channels, window, name=name, stride=stride, groups=groups, is_padded=is_padded)
        x = self.apply("batchnorm", x, name=f"{name}_norm", weight=2 * channels)
        return self.apply(activation, x, name=f"{name}_{activation}") if activation else x

    def apply(self, kind: str, *inputs: Maps, name: str, weight: int = 0) -> Maps:
        """An operator that leaves the shape of its first input as it is."""
        x = inputs[0]
        rows = tuple(maps.row for maps in inputs)
        row = self.block.vector(kind, rows, self.rows(x.pixels), whole(x.channels), name=name, weight=whole(weight))
        return replace(x, row=row)

    def max_pool(self, x: Maps, window: int, *, name: str, padding: int = 0) -> Maps:
        """The maximum of windows two pixels apart."""
        height, width = (_outputs(side, window, 2, padding) for side in (x.height, x.width))
        row = self.block.vector("strided_maxpool", (x.row,), self.rows(height * width), whole(x.channels), name=name)
        return Maps(row=row, height=height, width=width, channels=x.channels)

    def average_pool(self, x: Maps, window: int, *, name: str, stride: int) -> Maps:
        """The mean of windows that lie inside the image; a mean over neighbours that keeps the shape is `avgpool`."""
        height, width = (_outputs(side, window, stride, 0) for side in (x.height, x.width))
        frac = height * width / x.pixels
        rows, cols = self.rows(x.pixels), whole(x.channels)
        row = self.block.vector("strided_avgpool", (x.row,), rows, cols, name=name, output_frac=frac)
        return Maps(row=row, height=height, width=width, channels=x.channels)

    def global_average(self, x: Maps, *, name: str = "average") -> Maps:
        return self.average_pool(x, x.height, name=name, stride=1)

    def concat(self, *inputs: Maps, name: str = "concat") -> Maps:
        """Channels of all inputs side by side."""
        wide = replace(inputs[0], channels=sum(maps.channels for maps in inputs))
        return self.apply("concat", wide, *inputs[1:], name=name)

    def linear(self, x: Maps, width: int, *, name: str) -> Maps:
        """A fully connected layer with a bias over all of an image's elements."""
        row = self.block.linear(x.row, self.rows(1), whole(x.elements), whole(width), name=name, bias=True)
        return Maps(row=row, height=1, width=1, channels=width)

    def loss(self, logits: Maps, *, name: str = "loss") -> Maps:
        """Softmax cross-entropy; what comes back are the logits, which is all that is left to hand on."""
        self.apply(self.sample.loss_kind, logits, name=name)
        return logits


class NetworkSection(Protocol):
    """A stretch of an image network; it becomes one block."""

    @property
    def name(self) -> str: ...

    @property
    def is_layer(self) -> bool: ...

    def lay(self, build: ImageBuilder, x: Maps) -> Maps: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNetwork:
    """Parts in order over square colour images of `side` pixels."""

    name: str
    parts: tuple[NetworkSection, ...]
    side: int = 224

    def forward(self, sample: Sample) -> Graph:
        refuse_positions(self.name, sample)
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=1,
            dtype=sample.dtype,
            blocks=merged_blocks(kept_once(self._blocks(sample))),
            rules=_RULES,
            num_kv_heads=1,
        )

    def _blocks(self, sample: Sample) -> list[Block]:
        x = Maps(height=self.side, width=self.side, channels=NUM_COLOURS)
        blocks: list[Block] = []
        for part in self.parts:
            rows = (sample.batch * x.pixels, Axis.DATA)
            block = BlockBuilder(
                part.name,
                sample.dtype,
                rows,
                whole(x.channels),
                is_input_data=not blocks,
                kernels=sample.kernel_set,
            )
            x = replace(part.lay(ImageBuilder(block, sample), x), row=0)
            blocks.append(block.block(is_layer=part.is_layer, boundary_activation_elements=sample.batch * x.elements))
        return blocks


def merged_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """`blocks` with neighbours that differ in name only as one block, repeated, under the first one's name."""
    merged: list[Block] = []
    for block in blocks:
        if merged and replace(block, name=merged[-1].name, repeat=merged[-1].repeat) == merged[-1]:
            merged[-1] = replace(merged[-1], repeat=merged[-1].repeat + block.repeat)
        else:
            merged.append(block)
    return tuple(merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """Global average, dropout if any, one fully connected layer and the loss."""

    name: str = "head"
    has_dropout: bool = False
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = build.global_average(x)
        if self.has_dropout:
            x = build.apply("dropout", x, name="dropout")
        return build.loss(build.linear(x, NUM_CLASSES, name="fc"))
