"""What classifiers of images share: a convolution with its norm, and a loss around a network."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from tests.torch_models.built import BATCH, Build, Built, indices, numbers, on_meta

NUM_CLASSES = 1000
Pair = int | tuple[int, int]


class Classified(nn.Module):
    """The cross-entropy of a network's logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.network(images), labels)


def normed(
    in_channels: int,
    channels: int,
    window: Pair,
    *,
    stride: int = 1,
    padding: Pair = 0,
    groups: int = 1,
    activation: Callable[[], nn.Module] | None = lambda: nn.ReLU(inplace=True),
) -> nn.Sequential:
    """A convolution without bias, batch norm and an activation if any."""
    convolution = nn.Conv2d(in_channels, channels, window, stride=stride, padding=padding, groups=groups, bias=False)
    parts = [convolution, nn.BatchNorm2d(channels)]
    return nn.Sequential(*parts, activation()) if activation else nn.Sequential(*parts)


def classifier(make: Callable[[], nn.Module], side: int = 224) -> Build:
    def build(*, batch: int = BATCH, seq: int = 0) -> Built:
        return on_meta(make), {"images": numbers(batch, 3, side, side), "labels": indices(batch)}

    return build
