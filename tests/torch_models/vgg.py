"""VGG-16 by hand, without batch norm."""

from __future__ import annotations

from torch import nn

from tests.torch_models.built import Build
from tests.torch_models.images import NUM_CLASSES, Classified, classifier


def _vgg_16() -> nn.Module:
    parts: list[nn.Module] = []
    in_channels = 3
    for channels, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            parts += [nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU(inplace=True)]
            in_channels = channels
        parts.append(nn.MaxPool2d(2, stride=2))
    parts.append(nn.Flatten())
    width = 512 * 7 * 7
    for _ in range(2):
        parts += [nn.Linear(width, 4096), nn.ReLU(inplace=True), nn.Dropout()]
        width = 4096
    return Classified(nn.Sequential(*parts, nn.Linear(width, NUM_CLASSES)))


BUILDS: dict[str, Build] = {"vgg-16": classifier(_vgg_16)}
