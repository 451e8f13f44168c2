"""DLRM (Naumov et al. 2019) in the size the ACE paper trains."""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.recommender import Recommender

# 4160 = (64 tables + 1 dense feature) x 64: features are concatenated. Dot products of distinct pairs would be
# 65 * 64 / 2 + 64 = 2144 wide. (All 65 * 64 ordered pairs would be 4160 too, but DLRM takes each pair once.)
_TOP = (4160, *(2048,) * 11, 1)
_BOTTOM = (1600, *(1024,) * 6, 64)


@models.register("dlrm")
def dlrm() -> Model:
    return Model(
        architecture=Recommender(
            name="dlrm", bottom=_BOTTOM, top=_TOP, num_tables=64, num_table_rows=1_000_000, feature_width=64
        ),
        family="dlrm",
        seq=1,
        sample="rows",
        # dense networks 57,411,584, to the last weight and without biases; tables 64 x 1,000,000 x 64
        published_parameters=4_153_411_584,
        is_exact=False,
        source=(
            "Naumov et al. 2019, arXiv:1906.00091; dense layers and 64 tables of width 64 as in the DLRM workload of "
            "ACE (Rashidi et al. 2021, arXiv:2007.00156) and ASTRA-sim, which count no biases; ACE gives no table "
            "size, so rows are assumed: 1,000,000 a table, as in the benchmark of Naumov et al., section 5; and one "
            "lookup a table and sample, where that benchmark has 100"
        ),
    )
