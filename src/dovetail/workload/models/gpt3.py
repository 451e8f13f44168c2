"""GPT-3 (OpenAI).

Every layer attends to all earlier positions here, as in each public system that trains this shape; the original
alternated such layers with locally banded ones, whose band it does not give.
"""

from __future__ import annotations

from dovetail.units import GIGA
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.models.gpt2 import gpt2_like


@models.register("gpt3-175b")
def gpt3_175b() -> Model:
    return Model(
        architecture=gpt2_like("gpt3-175b", 96, 12288, 96, 50257, 2048),
        family="gpt3",
        seq=2048,
        sample="tokens",
        published_parameters=175 * GIGA,
        is_exact=False,
        source="Brown et al. 2020, arXiv:2005.14165, table 2.1",
    )
