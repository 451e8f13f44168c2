"""The catalogue's models in PyTorch: from configurations of transformers where it has the family, else by hand.

Shapes are written down here once more, so that the catalogue and these do not share a mistake.
"""

from __future__ import annotations

from tests.torch_models import (
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
from tests.torch_models.built import Build

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
