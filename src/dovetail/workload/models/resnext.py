"""ResNeXt: residual networks whose 3x3 convolutions come in groups (Xie et al. 2016)."""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.models.resnet import bottleneck_network


@models.register("resnext-101-32x8d")
def resnext_101_32x8d() -> Model:
    return Model(
        architecture=bottleneck_network("resnext-101-32x8d", (3, 4, 23, 3), groups=32, group_width=8),
        family="resnext",
        seq=1,
        sample="images",
        published_parameters=88_791_336,
        is_exact=True,
        source="Xie et al. 2016, arXiv:1611.05431; parameters of torchvision's resnext101_32x8d",
    )
