"""ResNet and ResNeXt by hand, as torchvision has them: the stride of a bottleneck is in its 3x3 convolution."""

from __future__ import annotations

from torch import Tensor, nn

from tests.torch_models.built import Build
from tests.torch_models.images import NUM_CLASSES, Classified, classifier, normed


class Residual(nn.Module):
    """A branch beside a shortcut, which is projected where shapes differ."""

    def __init__(self, branch: nn.Sequential, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        is_same = stride == 1 and in_channels == channels
        self.shortcut = nn.Identity() if is_same else normed(in_channels, channels, 1, stride=stride, activation=None)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.branch(x) + self.shortcut(x))


def _basic(in_channels: int, stage: int, stride: int) -> tuple[Residual, int]:
    channels = 64 * 2**stage
    branch = nn.Sequential(
        normed(in_channels, channels, 3, stride=stride, padding=1),
        normed(channels, channels, 3, padding=1, activation=None),
    )
    return Residual(branch, in_channels, channels, stride), channels


def _bottleneck(in_channels: int, width: int, channels: int, stride: int, groups: int) -> Residual:
    branch = nn.Sequential(
        normed(in_channels, width, 1),
        normed(width, width, 3, stride=stride, padding=1, groups=groups),
        normed(width, channels, 1, activation=None),
    )
    return Residual(branch, in_channels, channels, stride)


def _network(stages: list[nn.Module], channels: int) -> nn.Module:
    network = nn.Sequential(
        normed(3, 64, 7, stride=2, padding=3),
        nn.MaxPool2d(3, stride=2, padding=1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, NUM_CLASSES),
    )
    return Classified(network)


def _resnet_18() -> nn.Module:
    stages: list[nn.Module] = []
    channels = 64
    for stage in range(4):
        for index in range(2):
            block, channels = _basic(channels, stage, stride=2 if stage and not index else 1)
            stages.append(block)
    return _network(stages, channels)


def _bottlenecks(depths: tuple[int, ...], groups: int, group_width: int) -> nn.Module:
    stages: list[nn.Module] = []
    in_channels = 64
    for stage, depth in enumerate(depths):
        width, channels = groups * group_width * 2**stage, 256 * 2**stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            stages.append(_bottleneck(in_channels, width, channels, stride, groups))
            in_channels = channels
    return _network(stages, in_channels)


BUILDS: dict[str, Build] = {
    "resnet-18": classifier(_resnet_18),
    "resnet-50": classifier(lambda: _bottlenecks((3, 4, 6, 3), 1, 64)),
    "resnext-101-32x8d": classifier(lambda: _bottlenecks((3, 4, 23, 3), 32, 8)),
}
