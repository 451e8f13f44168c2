"""Llama 2 and Llama 3 (Meta)."""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

_LLAMA2 = "Touvron et al. 2023, arXiv:2307.09288, released config.json and weights"
_LLAMA3 = "Grattafiori et al. 2024, arXiv:2407.21783, released config.json and weights"


def _llama(
    name: str, num_layers: int, hidden: int, num_heads: int, num_kv_heads: int, ffn_width: int, vocab: int
) -> Transformer:
    return Transformer(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_width=hidden // num_heads,
        ffn_width=ffn_width,
        vocab=vocab,
    )


def _entry(architecture: Transformer, seq: int, published_parameters: int, source: str) -> Model:
    return Model(
        architecture=architecture,
        family="llama",
        seq=seq,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=True,
        source=source,
    )


@models.register("llama2-7b")
def llama2_7b() -> Model:
    return _entry(_llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000), 4096, 6_738_415_616, _LLAMA2)


@models.register("llama2-70b")
def llama2_70b() -> Model:
    return _entry(_llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000), 4096, 68_976_648_192, _LLAMA2)


@models.register("llama3-8b")
def llama3_8b() -> Model:
    return _entry(_llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256), 8192, 8_030_261_248, _LLAMA3)


@models.register("llama3-70b")
def llama3_70b() -> Model:
    return _entry(_llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256), 8192, 70_553_706_496, _LLAMA3)


@models.register("llama3-405b")
def llama3_405b() -> Model:
    return _entry(_llama("llama3-405b", 126, 16384, 128, 8, 53248, 128256), 8192, 405_853_388_800, _LLAMA3)
