"""The GPT models on which Megatron-LM was measured (NVIDIA): GPT-2's shape, vocabulary 51200, 2048 positions.

Two papers give them: Narayanan et al. 2021 in table 1, Korthikanti et al. 2022 in table 3. The largest two are the
same in both, and the 530B one is also the shape of MT-NLG, so each is here once.
"""

from __future__ import annotations

from dovetail.units import GIGA
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.models.gpt2 import gpt2_like

_NARAYANAN = "Narayanan et al. 2021, arXiv:2104.04473, table 1"
_BY_EQUATION = f"{_NARAYANAN}; the count by its equation 2, which the table rounds to two digits"
_KORTHIKANTI = "Korthikanti et al. 2022, arXiv:2205.05198, table 3"
_BOTH = f"{_NARAYANAN}; {_KORTHIKANTI}"
_SEQ = 2048


def _entry(name: str, num_layers: int, hidden: int, num_heads: int, published_parameters: float, source: str) -> Model:
    return Model(
        architecture=gpt2_like(name, num_layers, hidden, num_heads, 51200, _SEQ),
        family="megatron",
        seq=_SEQ,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=False,
        source=source,
    )


@models.register("megatron-1.7b")
def megatron_1_7b() -> Model:
    return _entry("megatron-1.7b", 24, 2304, 24, 1_652_226_048, _BY_EQUATION)


@models.register("megatron-3.6b")
def megatron_3_6b() -> Model:
    return _entry("megatron-3.6b", 30, 3072, 32, 3_562_162_176, _BY_EQUATION)


@models.register("megatron-7.5b")
def megatron_7_5b() -> Model:
    return _entry("megatron-7.5b", 36, 4096, 32, 7.5 * GIGA, _NARAYANAN)


@models.register("megatron-18.4b")
def megatron_18_4b() -> Model:
    return _entry("megatron-18.4b", 40, 6144, 48, 18.4 * GIGA, _NARAYANAN)


@models.register("megatron-22b")
def megatron_22b() -> Model:
    return _entry("megatron-22b", 48, 6144, 64, 22 * GIGA, _KORTHIKANTI)


@models.register("megatron-39.1b")
def megatron_39_1b() -> Model:
    return _entry("megatron-39.1b", 48, 8192, 64, 39.1 * GIGA, _NARAYANAN)


@models.register("megatron-76.1b")
def megatron_76_1b() -> Model:
    return _entry("megatron-76.1b", 60, 10240, 80, 76.1 * GIGA, _NARAYANAN)


@models.register("megatron-145.6b")
def megatron_145_6b() -> Model:
    return _entry("megatron-145.6b", 80, 12288, 96, 145.6 * GIGA, _NARAYANAN)


@models.register("megatron-175b")
def megatron_175b() -> Model:
    return _entry("megatron-175b", 96, 12288, 96, 175 * GIGA, _KORTHIKANTI)


@models.register("megatron-310.1b")
def megatron_310_1b() -> Model:
    return _entry("megatron-310.1b", 96, 16384, 128, 310.1 * GIGA, _NARAYANAN)


@models.register("megatron-530b")
def megatron_530b() -> Model:
    return _entry("megatron-530b", 105, 20480, 128, 529.6 * GIGA, _BOTH)


@models.register("megatron-1t")
def megatron_1t() -> Model:
    return _entry("megatron-1t", 128, 25600, 160, 1008.0 * GIGA, _BOTH)
