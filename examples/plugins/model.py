"""A model of one's own: a decoder of three billion parameters that nobody published.

dovetail show sketch-3b --plugin examples/plugins/model.py
dovetail plan --model sketch-3b --cluster h100x64 --plugin examples/plugins/model.py
"""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


@models.register("sketch-3b")
def sketch_3b() -> Model:
    """A Llama-like decoder: what is left out is as in `Transformer`."""
    shape = Transformer(
        name="sketch-3b",
        num_layers=28,
        hidden=3072,
        num_heads=24,
        num_kv_heads=8,
        head_width=128,
        ffn_width=8192,
        vocab=64_000,
    )
    return Model(
        architecture=shape,
        family="sketch",
        seq=8192,
        sample="tokens",
        published_parameters=0.0,  # nobody published it
        is_exact=False,
        source="a sketch of ours",
    )
