"""MobileNet-v3: inverted residuals with depthwise convolutions and squeeze-excite (Howard et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.vision import NUM_CLASSES, ImageBuilder, ImageNetwork, Maps


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """A strided 3x3 convolution."""

    name: str = "stem"
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        return build.convolution_unit(x, 16, (3, 3), stride=2, activation="hardswish", name="conv")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedResidual:
    """Widen, convolve each channel by itself, squeeze-excite, narrow; a residual where shapes agree."""

    name: str
    window: int
    expanded: int
    channels: int
    has_squeeze: bool
    activation: str
    stride: int = 1
    is_layer: bool = True

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        y, activation = x, self.activation
        if self.expanded != x.channels:
            y = build.convolution_unit(y, self.expanded, (1, 1), activation=activation, name="expand")
        y = build.convolution_unit(
            y,
            self.expanded,
            (self.window, self.window),
            stride=self.stride,
            groups=self.expanded,
            activation=activation,
            name="depthwise",
        )
        if self.has_squeeze:
            y = _squeeze_excite(build, y)
        y = build.convolution_unit(y, self.channels, (1, 1), activation="", name="project")
        has_residual = self.stride == 1 and x.channels == self.channels
        return build.apply("add", x, y, name="add") if has_residual else y


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A last 1x1 convolution, the mean, two fully connected layers and the loss."""

    name: str = "head"
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = build.convolution_unit(x, 960, (1, 1), activation="hardswish", name="conv")
        x = build.linear(build.global_average(x), 1280, name="fc1")
        x = build.apply("dropout", build.apply("hardswish", x, name="hardswish"), name="dropout")
        return build.loss(build.linear(x, NUM_CLASSES, name="fc2"))


def _squeeze_excite(build: ImageBuilder, x: Maps) -> Maps:
    """Scales each channel by a gate computed from the mean of all of them."""
    squeezed = _round_to_eight(x.channels // 4)
    gate = build.global_average(x, name="squeeze")
    gate = build.convolution(gate, squeezed, (1, 1), bias=True, name="squeeze_fc1")
    gate = build.apply("relu", gate, name="squeeze_relu")
    gate = build.convolution(gate, x.channels, (1, 1), bias=True, name="squeeze_fc2")
    gate = build.apply("hardsigmoid", gate, name="squeeze_gate")
    return build.apply("channel_scale", x, gate, name="excite")


def _round_to_eight(channels: int) -> int:
    """The nearest multiple of 8 that takes away at most a tenth (torchvision's _make_divisible)."""
    rounded = max(8, (channels + 4) // 8 * 8)
    return rounded + 8 if 10 * rounded < 9 * channels else rounded


# window, expanded, channels, squeeze-excite, activation, stride: table 1 of the paper
_LARGE = (
    (3, 16, 16, False, "relu", 1),
    (3, 64, 24, False, "relu", 2),
    (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2),
    (5, 120, 40, True, "relu", 1),
    (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hardswish", 2),
    (3, 200, 80, False, "hardswish", 1),
    (3, 184, 80, False, "hardswish", 1),
    (3, 184, 80, False, "hardswish", 1),
    (3, 480, 112, True, "hardswish", 1),
    (3, 672, 112, True, "hardswish", 1),
    (5, 672, 160, True, "hardswish", 2),
    (5, 960, 160, True, "hardswish", 1),
    (5, 960, 160, True, "hardswish", 1),
)


@models.register("mobilenet-v3-large")
def mobilenet_v3_large() -> Model:
    blocks = tuple(
        InvertedResidual(
            name=f"block_{index + 1}",
            window=window,
            expanded=expanded,
            channels=channels,
            has_squeeze=has_squeeze,
            activation=activation,
            stride=stride,
        )
        for index, (window, expanded, channels, has_squeeze, activation, stride) in enumerate(_LARGE)
    )
    return Model(
        architecture=ImageNetwork(name="mobilenet-v3-large", parts=(Stem(), *blocks, Head())),
        family="mobilenet",
        seq=1,
        sample="images",
        published_parameters=5_483_032,
        is_exact=True,
        source="Howard et al. 2019, arXiv:1905.02244; parameters of torchvision's mobilenet_v3_large",
    )
