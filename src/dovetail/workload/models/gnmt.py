"""GNMT v2: the recurrent translator of MLPerf (after Wu et al. 2016)."""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.recurrent import RecurrentTranslator


@models.register("gnmt")
def gnmt() -> Model:
    return Model(
        architecture=RecurrentTranslator(
            name="gnmt", hidden=1024, vocab=32320, num_encoder_layers=4, num_decoder_layers=4
        ),
        family="gnmt",
        seq=50,  # longest sentence NVIDIA's reference trains on: --train-max-length
        sample="tokens",
        published_parameters=160_671_297,
        is_exact=True,
        source=(
            "Wu et al. 2016, arXiv:1609.08144; GNMT v2 of NVIDIA's and MLPerf's PyTorch reference, whose count the "
            "optimizer tests of NVIDIA apex state; both sentences of a pair are taken to be of one length"
        ),
    )
