"""The models of the first Megatron-LM paper (NVIDIA, 2019): GPT-2 scaled up, and a BERT that normalises first.

The vocabulary of GPT-2 is padded to 51200, as for 8 tensor-parallel devices, and that of BERT to a multiple of 128.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.units import GIGA, MEGA
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.models.bert import bert_large
from dovetail.workload.models.gpt2 import gpt2_like
from dovetail.workload.transformer import Transformer

_SHOEYBI = "Shoeybi et al. 2019, arXiv:1909.08053"


def _gpt2(name: str, num_layers: int, hidden: int, num_heads: int, published_parameters: float) -> Model:
    return Model(
        architecture=gpt2_like(name, num_layers, hidden, num_heads, 51200, 1024),
        family="megatron",
        seq=1024,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=False,
        source=f"{_SHOEYBI}, table 2",
    )


@models.register("gpt2-2.5b")
def gpt2_2_5b() -> Model:
    return _gpt2("gpt2-2.5b", 54, 1920, 20, 2.5 * GIGA)


@models.register("gpt2-8.3b")
def gpt2_8_3b() -> Model:
    return _gpt2("gpt2-8.3b", 72, 3072, 24, 8.3 * GIGA)


@models.register("megatron-bert-336m")
def megatron_bert_336m() -> Model:
    google = bert_large().architecture
    assert isinstance(google, Transformer)
    return Model(
        architecture=replace(
            google, name="megatron-bert-336m", vocab=30592, has_final_norm=True, has_embedding_norm=False
        ),
        family="megatron",
        seq=512,
        sample="tokens",
        published_parameters=336 * MEGA,
        is_exact=False,
        source=f"{_SHOEYBI}, table 4: as BERT-large, its norms moved before attention and feed-forward",
    )
