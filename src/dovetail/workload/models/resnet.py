"""ResNet: residual networks (He et al. 2015), and the blocks ResNeXt shares with it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.vision import Classifier, ImageBuilder, ImageNetwork, Maps, NetworkSection

_PAPER = "He et al. 2015, arXiv:1512.03385; parameters of torchvision's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """A strided 7x7 convolution and a strided maximum."""

    name: str = "stem"
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = build.convolution_unit(x, 64, (7, 7), stride=2, name="conv1")
        return build.max_pool(x, 3, padding=1, name="maxpool")


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicBlock:
    """Two 3x3 convolutions beside a shortcut."""

    name: str
    channels: int
    stride: int
    is_layer: bool = True

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        y = build.convolution_unit(x, self.channels, (3, 3), stride=self.stride, name="conv1")
        y = build.convolution_unit(y, self.channels, (3, 3), activation="", name="conv2")
        return _joined(build, x, y, self.stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the stride is in the 3x3 ("v1.5"), which may have groups."""

    name: str
    width: int
    channels: int
    stride: int
    groups: int = 1
    is_layer: bool = True

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        y = build.convolution_unit(x, self.width, (1, 1), name="conv1")
        y = build.convolution_unit(y, self.width, (3, 3), stride=self.stride, groups=self.groups, name="conv2")
        y = build.convolution_unit(y, self.channels, (1, 1), activation="", name="conv3")
        return _joined(build, x, y, self.stride)


def _joined(build: ImageBuilder, x: Maps, y: Maps, stride: int) -> Maps:
    """The sum of a branch and its shortcut, which is projected where shapes differ."""
    if stride > 1 or x.channels != y.channels:
        x = build.convolution_unit(x, y.channels, (1, 1), stride=stride, activation="", name="downsample")
    return build.apply("relu", build.apply("add", x, y, name="add"), name="relu")


def bottleneck_network(name: str, depths: tuple[int, ...], *, groups: int, group_width: int) -> ImageNetwork:
    """Stages of bottlenecks, each twice as wide and half as high as the one before; parts named as torchvision does."""
    blocks: list[NetworkSection] = []
    for stage, depth in enumerate(depths):
        scale = 2**stage
        for index in range(depth):
            blocks.append(
                Bottleneck(
                    name=f"layer{stage + 1}_{index}",
                    width=groups * group_width * scale,
                    channels=256 * scale,
                    stride=2 if stage and not index else 1,
                    groups=groups,
                )
            )
    return ImageNetwork(name=name, parts=(Stem(), *blocks, Classifier()))


def _basic_network(name: str, depths: tuple[int, ...]) -> ImageNetwork:
    blocks = tuple(
        BasicBlock(
            name=f"layer{stage + 1}_{index}",
            channels=64 * 2**stage,
            stride=2 if stage and not index else 1,
        )
        for stage, depth in enumerate(depths)
        for index in range(depth)
    )
    return ImageNetwork(name=name, parts=(Stem(), *blocks, Classifier()))


def _entry(architecture: ImageNetwork, published_parameters: int, weights: str) -> Model:
    return Model(
        architecture=architecture,
        family="resnet",
        seq=1,
        sample="images",
        published_parameters=published_parameters,
        is_exact=True,
        source=f"{_PAPER} {weights}",
    )


@models.register("resnet-18")
def resnet_18() -> Model:
    return _entry(_basic_network("resnet-18", (2, 2, 2, 2)), 11_689_512, "resnet18")


@models.register("resnet-50")
def resnet_50() -> Model:
    architecture = bottleneck_network("resnet-50", (3, 4, 6, 3), groups=1, group_width=64)
    return _entry(architecture, 25_557_032, "resnet50 (v1.5: the stride is in the 3x3 convolution)")
