"""MobileNet-v3-large by hand: inverted residuals, some with squeeze-excite."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from tests.torch_models.built import Build
from tests.torch_models.images import NUM_CLASSES, Classified, classifier, normed


def _relu() -> nn.Module:
    return nn.ReLU(inplace=True)


def _hardswish() -> nn.Module:
    return nn.Hardswish()  # in place PyTorch copies first what comes in, which its gradient needs


class SqueezeExcite(nn.Module):
    """Every channel times a gate computed from the means of all."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(x) * x


class InvertedResidual(nn.Module):
    def __init__(
        self,
        in_channels: int,
        window: int,
        expanded: int,
        channels: int,
        squeezed: int,
        activation: Callable[[], nn.Module],
        stride: int,
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        if expanded != in_channels:
            parts.append(normed(in_channels, expanded, 1, activation=activation))
        around = (window - 1) // 2
        parts.append(
            normed(expanded, expanded, window, stride=stride, padding=around, groups=expanded, activation=activation)
        )
        if squeezed:
            parts.append(SqueezeExcite(expanded, squeezed))
        parts.append(normed(expanded, channels, 1, activation=None))
        self.branch = nn.Sequential(*parts)
        self.has_residual = stride == 1 and in_channels == channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x) if self.has_residual else self.branch(x)


# window, expanded, channels, channels of the squeeze, activation, stride: Howard et al. 2019, table 1; a quarter of the
# expanded channels squeezed, to a multiple of 8
_LARGE = (
    (3, 16, 16, 0, _relu, 1),
    (3, 64, 24, 0, _relu, 2),
    (3, 72, 24, 0, _relu, 1),
    (5, 72, 40, 24, _relu, 2),
    (5, 120, 40, 32, _relu, 1),
    (5, 120, 40, 32, _relu, 1),
    (3, 240, 80, 0, _hardswish, 2),
    (3, 200, 80, 0, _hardswish, 1),
    (3, 184, 80, 0, _hardswish, 1),
    (3, 184, 80, 0, _hardswish, 1),
    (3, 480, 112, 120, _hardswish, 1),
    (3, 672, 112, 168, _hardswish, 1),
    (5, 672, 160, 168, _hardswish, 2),
    (5, 960, 160, 240, _hardswish, 1),
    (5, 960, 160, 240, _hardswish, 1),
)


def _mobilenet_v3_large() -> nn.Module:
    parts: list[nn.Module] = [normed(3, 16, 3, stride=2, padding=1, activation=_hardswish)]
    in_channels = 16
    for window, expanded, channels, squeezed, activation, stride in _LARGE:
        parts.append(InvertedResidual(in_channels, window, expanded, channels, squeezed, activation, stride))
        in_channels = channels
    parts += [
        normed(in_channels, 960, 1, activation=_hardswish),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(960, 1280),
        nn.Hardswish(),
        nn.Dropout(0.2, inplace=True),
        nn.Linear(1280, NUM_CLASSES),
    ]
    return Classified(nn.Sequential(*parts))


BUILDS: dict[str, Build] = {"mobilenet-v3-large": classifier(_mobilenet_v3_large)}
