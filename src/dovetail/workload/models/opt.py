"""OPT (Meta): GPT-2's shape with a ReLU, no dropout on attention, and two unused rows of positions.

The 350M model differs: it embeds in 512 columns, and normalises after each residual add, not before. Where a norm
stands does not change what it costs, so only the missing final norm shows.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.units import GIGA
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.models.gpt2 import gpt2_like
from dovetail.workload.transformer import Transformer

_SEQ = 2048


def _opt(name: str, num_layers: int, hidden: int, num_heads: int) -> Transformer:
    shape = gpt2_like(name, num_layers, hidden, num_heads, 50272, _SEQ + 2)
    return replace(shape, activation="relu", has_attention_dropout=False)


def _entry(architecture: Transformer, published_parameters: float, is_exact: bool) -> Model:
    return Model(
        architecture=architecture,
        family="opt",
        seq=_SEQ,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=is_exact,
        source="Zhang et al. 2022, arXiv:2205.01068, table 1; released config.json and weights below 175B",
    )


@models.register("opt-350m")
def opt_350m() -> Model:
    shape = replace(_opt("opt-350m", 24, 1024, 16), embedding_width=512, has_final_norm=False)
    return _entry(shape, 331_196_416, is_exact=True)


@models.register("opt-1.3b")
def opt_1_3b() -> Model:
    return _entry(_opt("opt-1.3b", 24, 2048, 32), 1_315_758_080, is_exact=True)


@models.register("opt-175b")
def opt_175b() -> Model:
    return _entry(_opt("opt-175b", 96, 12288, 96), 175 * GIGA, is_exact=False)
