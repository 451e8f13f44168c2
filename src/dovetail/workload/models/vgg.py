"""VGG: plain stacks of 3x3 convolutions (Simonyan & Zisserman 2014)."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.vision import NUM_CLASSES, ImageBuilder, ImageNetwork, Maps, NetworkSection


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConvolution:
    """A 3x3 convolution with a bias and relu; the last of a stage halves the image."""

    name: str
    channels: int
    halves: bool
    is_layer: bool

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = build.convolution(x, self.channels, (3, 3), bias=True, name="conv")
        x = build.apply("relu", x, name="relu")
        return build.max_pool(x, 2, name="maxpool") if self.halves else x


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected:
    """A fully connected layer with relu and dropout."""

    name: str
    width: int
    is_layer: bool = True

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = build.linear(x, self.width, name="fc")
        return build.apply("dropout", build.apply("relu", x, name="relu"), name="dropout")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLinear:
    """The last fully connected layer and the loss."""

    name: str = "head"
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        return build.loss(build.linear(x, NUM_CLASSES, name="fc"))


def _parts(stages: tuple[tuple[int, int], ...]) -> tuple[NetworkSection, ...]:
    """`stages`: channels and number of convolutions."""
    convolutions = [
        PlainConvolution(
            name=f"conv{stage + 1}_{index + 1}",
            channels=channels,
            halves=index == depth - 1,
            is_layer=bool(stage or index),
        )
        for stage, (channels, depth) in enumerate(stages)
        for index in range(depth)
    ]
    return (*convolutions, FullyConnected(name="fc6", width=4096), FullyConnected(name="fc7", width=4096), LastLinear())


@models.register("vgg-16")
def vgg_16() -> Model:
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    return Model(
        architecture=ImageNetwork(name="vgg-16", parts=_parts(stages)),
        family="vgg",
        seq=1,
        sample="images",
        published_parameters=138_357_544,
        is_exact=True,
        source="Simonyan & Zisserman 2014, arXiv:1409.1556, column D; parameters of torchvision's vgg16, no batch norm",
    )
