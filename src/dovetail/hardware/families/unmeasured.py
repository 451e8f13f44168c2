"""Chips that are no GPUs and that were not measured here: they wait for nothing but launches."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration
from dovetail.hardware.families import Family, LeftOut, families
from dovetail.hardware.families.gpu import GPU_CALIBRATION, GPU_LEFT_OUT

UNMEASURED_CALIBRATION = Calibration(
    tensor_frac=0.80,  # estimate: what tuned products of Gaudi 2 and Trainium are reported to reach (recalled)
    vector_frac=0.80,  # estimate: no kernel was counted on such a chip
    hbm_frac=GPU_CALIBRATION.hbm_frac,
    link_frac=GPU_CALIBRATION.link_frac,
    launch_s=GPU_CALIBRATION.launch_s,
    fitted_on="not fitted: taken from the H200's shares of HBM and links, and its launches",
    family="unmeasured",
)
families.register("unmeasured")(
    Family(
        name="unmeasured",
        summary="accelerators that are no GPUs, by the shares that an H200 reaches",
        calibration=lambda _clock_hz, _host_slower: UNMEASURED_CALIBRATION,
        fitted=(),
        source="estimate: the H200's measured shares",
        left_out=LeftOut(
            spread_frac=GPU_LEFT_OUT.spread_frac, measured_on="no such chip; taken from the GPUs, whose shares it has"
        ),
    )
)
