"""The catalogue's models in PyTorch: from configurations of transformers where it has the family, else by hand.

Shapes are written down here once more, so that the catalogue and these do not share a mistake. A decoder that nobody
has written down has the parameters that `from_shape` gives its shape.
"""

from __future__ import annotations

from dovetail.importers.torch_library import torch_library
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

torch_library()  # before transformers: torchvision of another build would stop it

from tests.torch_models import (  # noqa: E402
    decoders,
    encoders,
    inception,
    mixtures,
    mobilenet,
    palm,
    patterned,
    recommender,
    residual,
    translator,
    vgg,
)
from tests.torch_models.built import Build  # noqa: E402
from tests.torch_models.from_shape import of_shape  # noqa: E402

BUILDS: dict[str, Build] = {
    **decoders.BUILDS,
    **encoders.BUILDS,
    **inception.BUILDS,
    **mixtures.BUILDS,
    **mobilenet.BUILDS,
    **palm.BUILDS,
    **patterned.BUILDS,
    **recommender.BUILDS,
    **residual.BUILDS,
    **translator.BUILDS,
    **vgg.BUILDS,
}


def module_of(name: str) -> Build:
    """The model of the catalogue in PyTorch: as it is written down here, or else from its shape."""
    if name in BUILDS:
        return BUILDS[name]
    shape = models[name]().architecture
    if not isinstance(shape, Transformer):
        raise NotImplementedError(f"{name} is no transformer: write its module in tests/torch_models")
    return of_shape(shape)
