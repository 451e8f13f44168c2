"""Inception-v3 (Szegedy et al. 2015) with the auxiliary classifier that is trained beside the last one."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.vision import NUM_CLASSES, Classifier, ImageBuilder, ImageNetwork, Maps, Window


@dataclass(frozen=True, slots=True)
class Unit:
    """One convolution of a branch: channels out, window, stride. With a stride of 2 windows lie inside the image."""

    channels: int
    window: Window = (1, 1)
    stride: int = 1
    is_padded: bool = True

    def lay(self, build: ImageBuilder, x: Maps, name: str) -> Maps:
        is_padded = self.is_padded and self.stride == 1
        return build.convolution_unit(x, self.channels, self.window, stride=self.stride, is_padded=is_padded, name=name)


Branch = tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """Five convolutions and two strided maxima: 299 pixels a side to 35."""

    name: str = "stem"
    is_layer: bool = False

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        x = _chain(build, x, "conv1", (Unit(32, (3, 3), 2), Unit(32, (3, 3), is_padded=False), Unit(64, (3, 3))))
        x = build.max_pool(x, 3, name="maxpool1")
        x = _chain(build, x, "conv2", (Unit(80), Unit(192, (3, 3), is_padded=False)))
        return build.max_pool(x, 3, name="maxpool2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Branches over one input, side by side, their channels concatenated.

    `forks` branches end in a 1x3 and a 3x1 convolution side by side. A last branch is the mean of neighbours and
    `pooled_channels` of a 1x1 convolution or, when that is 0, a strided maximum of the input.
    """

    name: str
    branches: tuple[Branch, ...]
    pooled_channels: int
    forks: tuple[Branch, ...] = ()
    fork_channels: int = 384
    has_auxiliary: bool = False  # the auxiliary classifier reads this part's input
    is_layer: bool = True

    def lay(self, build: ImageBuilder, x: Maps) -> Maps:
        if self.has_auxiliary:
            _auxiliary_classifier(build, x)
        ends = [_chain(build, x, f"branch{i}", branch) for i, branch in enumerate(self.branches)]
        for i, branch in enumerate(self.forks):
            y = _chain(build, x, f"fork{i}", branch)
            ends.append(Unit(self.fork_channels, (1, 3)).lay(build, y, f"fork{i}_1x3"))
            ends.append(Unit(self.fork_channels, (3, 1)).lay(build, y, f"fork{i}_3x1"))
        if self.pooled_channels:
            pooled = build.apply("avgpool", x, name="pool")
            ends.append(Unit(self.pooled_channels).lay(build, pooled, "pool_conv"))
        else:
            ends.append(build.max_pool(x, 3, name="pool"))
        return build.concat(*ends)


def _chain(build: ImageBuilder, x: Maps, name: str, units: Branch) -> Maps:
    for i, unit in enumerate(units):
        x = unit.lay(build, x, f"{name}_{i}")
    return x


def _auxiliary_classifier(build: ImageBuilder, x: Maps) -> None:
    x = build.average_pool(x, 5, stride=3, name="aux_pool")
    x = _chain(build, x, "aux", (Unit(128), Unit(768, (5, 5), is_padded=False)))
    build.loss(build.linear(x, NUM_CLASSES, name="aux_fc"), name="aux_loss")


def _wide(name: str, pooled_channels: int) -> Mixed:
    """35 pixels a side: 1x1, 5x5 and two 3x3."""
    deep = (Unit(64), Unit(96, (3, 3)), Unit(96, (3, 3)))
    return Mixed(
        name=name,
        branches=((Unit(64),), (Unit(48), Unit(64, (5, 5))), deep),
        pooled_channels=pooled_channels,
    )


def _factored(name: str, inner: int) -> Mixed:
    """17 pixels a side: 7x7 convolutions as 1x7 and 7x1, `inner` channels between them."""
    row, column = (1, 7), (7, 1)
    once = (Unit(inner), Unit(inner, row), Unit(192, column))
    twice = (Unit(inner), Unit(inner, column), Unit(inner, row), Unit(inner, column), Unit(192, row))
    return Mixed(name=name, branches=((Unit(192),), once, twice), pooled_channels=192)


def _forked(name: str) -> Mixed:
    """8 pixels a side: branches that end in 1x3 beside 3x1."""
    forks = ((Unit(384),), (Unit(448), Unit(384, (3, 3))))
    return Mixed(name=name, branches=((Unit(320),),), forks=forks, pooled_channels=192)


def _inception_v3() -> ImageNetwork:
    halve_35 = ((Unit(384, (3, 3), 2),), (Unit(64), Unit(96, (3, 3)), Unit(96, (3, 3), 2)))
    through_7x7 = (Unit(192), Unit(192, (1, 7)), Unit(192, (7, 1)), Unit(192, (3, 3), 2))
    halve_17 = ((Unit(192), Unit(320, (3, 3), 2)), through_7x7)
    return ImageNetwork(
        name="inception-v3",
        side=299,
        parts=(
            Stem(),
            _wide("mixed_5b", 32),
            _wide("mixed_5c", 64),
            _wide("mixed_5d", 64),
            Mixed(name="mixed_6a", branches=halve_35, pooled_channels=0),
            _factored("mixed_6b", 128),
            _factored("mixed_6c", 160),
            _factored("mixed_6d", 160),
            _factored("mixed_6e", 192),
            Mixed(name="mixed_7a", branches=halve_17, pooled_channels=0, has_auxiliary=True),
            _forked("mixed_7b"),
            _forked("mixed_7c"),
            Classifier(has_dropout=True),
        ),
    )


@models.register("inception-v3")
def inception_v3() -> Model:
    return Model(
        architecture=_inception_v3(),
        family="inception",
        seq=1,
        sample="images",
        published_parameters=27_161_264,
        is_exact=True,
        source=(
            "Szegedy et al. 2015, arXiv:1512.00567; parameters of torchvision's inception_v3 with its auxiliary "
            "classifier (23,834,568 without), 299 pixels a side"
        ),
    )
