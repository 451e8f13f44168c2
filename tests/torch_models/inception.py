"""Inception-v3 by hand, with the auxiliary classifier that is trained beside the last one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.torch_models.built import Build
from tests.torch_models.images import NUM_CLASSES, classifier, normed

AUXILIARY_WEIGHT = 0.4  # of its loss beside the last classifier's: Szegedy et al. 2015, as torchvision trains it


class Mixed(nn.Module):
    """Branches over one input, their channels side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def _pooled(in_channels: int, channels: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), normed(in_channels, channels, 1))


def _row(in_channels: int, channels: int, length: int) -> nn.Module:
    return normed(in_channels, channels, (1, length), padding=(0, length // 2))


def _column(in_channels: int, channels: int, length: int) -> nn.Module:
    return normed(in_channels, channels, (length, 1), padding=(length // 2, 0))


def _wide(in_channels: int, pooled: int) -> Mixed:
    """35 pixels a side."""
    return Mixed(
        normed(in_channels, 64, 1),
        nn.Sequential(normed(in_channels, 48, 1), normed(48, 64, 5, padding=2)),
        nn.Sequential(normed(in_channels, 64, 1), normed(64, 96, 3, padding=1), normed(96, 96, 3, padding=1)),
        _pooled(in_channels, pooled),
    )


def _factored(inner: int) -> Mixed:
    """17 pixels a side: 7x7 as 1x7 and 7x1."""
    return Mixed(
        normed(768, 192, 1),
        nn.Sequential(normed(768, inner, 1), _row(inner, inner, 7), _column(inner, 192, 7)),
        nn.Sequential(
            normed(768, inner, 1),
            _column(inner, inner, 7),
            _row(inner, inner, 7),
            _column(inner, inner, 7),
            _row(inner, 192, 7),
        ),
        _pooled(768, 192),
    )


def _forked(in_channels: int) -> Mixed:
    """8 pixels a side: 1x3 beside 3x1."""
    return Mixed(
        normed(in_channels, 320, 1),
        nn.Sequential(normed(in_channels, 384, 1), Mixed(_row(384, 384, 3), _column(384, 384, 3))),
        nn.Sequential(
            normed(in_channels, 448, 1),
            normed(448, 384, 3, padding=1),
            Mixed(_row(384, 384, 3), _column(384, 384, 3)),
        ),
        _pooled(in_channels, 192),
    )


def _halve_35() -> Mixed:
    return Mixed(
        normed(288, 384, 3, stride=2),
        nn.Sequential(normed(288, 64, 1), normed(64, 96, 3, padding=1), normed(96, 96, 3, stride=2)),
        nn.MaxPool2d(3, stride=2),
    )


def _halve_17() -> Mixed:
    return Mixed(
        nn.Sequential(normed(768, 192, 1), normed(192, 320, 3, stride=2)),
        nn.Sequential(normed(768, 192, 1), _row(192, 192, 7), _column(192, 192, 7), normed(192, 192, 3, stride=2)),
        nn.MaxPool2d(3, stride=2),
    )


def _stem() -> nn.Sequential:
    return nn.Sequential(
        normed(3, 32, 3, stride=2),
        normed(32, 32, 3),
        normed(32, 64, 3, padding=1),
        nn.MaxPool2d(3, stride=2),
        normed(64, 80, 1),
        normed(80, 192, 3),
        nn.MaxPool2d(3, stride=2),
    )


class InceptionV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _stem()
        self.wide = nn.Sequential(_wide(192, 32), _wide(256, 64), _wide(288, 64))
        self.factored = nn.Sequential(_halve_35(), _factored(128), _factored(160), _factored(160), _factored(192))
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, stride=3), normed(768, 128, 1), normed(128, 768, 5), nn.Flatten(), nn.Linear(768, 1000)
        )
        self.forked = nn.Sequential(_halve_17(), _forked(1280), _forked(2048))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(2048, NUM_CLASSES))

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.factored(self.wide(self.stem(images)))
        beside = functional.cross_entropy(self.auxiliary(x), labels)
        last = functional.cross_entropy(self.head(self.forked(x)), labels)
        return last + AUXILIARY_WEIGHT * beside


BUILDS: dict[str, Build] = {"inception-v3": classifier(InceptionV3, side=299)}
