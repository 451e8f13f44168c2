"""PaLM (Google): attention beside feed-forward, one key-value head, SwiGLU, no biases, a tied head."""

from __future__ import annotations

from dovetail.units import GIGA
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


@models.register("palm-540b")
def palm_540b() -> Model:
    shape = Transformer(
        name="palm-540b",
        num_layers=118,
        hidden=18432,
        num_heads=48,
        num_kv_heads=1,
        head_width=256,
        ffn_width=73728,
        vocab=256_000,
        norm="layernorm",
        num_norms=1,
        is_parallel=True,
        is_tied=True,
    )
    return Model(
        architecture=shape,
        family="palm",
        seq=2048,
        sample="tokens",
        published_parameters=540.35 * GIGA,
        is_exact=False,
        source="Chowdhery et al. 2022, arXiv:2204.02311, table 1",
    )
