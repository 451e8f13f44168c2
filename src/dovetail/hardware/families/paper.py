"""Chips that were never built: their calibration is the model itself."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration
from dovetail.hardware.families import PAPER, Family, LeftOut, families
from dovetail.hardware.families.tpu import TPU_LEFT_OUT

PAPER_CALIBRATION = Calibration(
    vector_frac=0.80,  # estimate: no kernel was counted on such a chip
    hbm_frac=0.90,  # as measured on the H200
    fitted_on=(
        "not fitted: taken from no chip: a template is judged against other templates, so arithmetic and links run at"
        " their peaks"
    ),
    family=PAPER,
)
families.register(PAPER)(
    Family(
        name=PAPER,
        summary="chips on paper, which run at their peaks but for HBM and the vector lanes",
        calibration=lambda _clock_hz, _host_slower: PAPER_CALIBRATION,
        fitted=(),
        source="estimate: a paper design runs at its peak; HBM at the H200's measured share",
        # the same physics of arrays; what is left out of a calibration is in none of the chips compared
        left_out=LeftOut(
            spread_frac=TPU_LEFT_OUT.spread_frac,
            measured_on=f"no such chip; taken from the TPUs, {TPU_LEFT_OUT.measured_on}",
        ),
    )
)
