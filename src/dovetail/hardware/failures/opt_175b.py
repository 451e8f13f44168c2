"""OPT-175B on 992 A100s: restarts for failing hardware over two months."""

from __future__ import annotations

from dovetail.hardware.failures import failures
from dovetail.hardware.reliability import Failures
from dovetail.units import SECONDS_PER_DAY

NUM_RESTARTS = 35 + 70  # arXiv:2205.01068, section 2.5: at least 35 by hand, and by their estimate 70 or more without


@failures.register("opt-175b")
def opt_175b() -> Failures:
    return Failures(
        mtbf_s=61 * SECONDS_PER_DAY / NUM_RESTARTS,  # arXiv:2205.01068, section 2.5: over the course of 2 months
        num_devices=992,  # arXiv:2205.01068, section 2.4
        source=(
            "OPT paper (arXiv:2205.01068), section 2.5: 35 restarts by hand and an estimated 70 without for failing"
            " hardware in two months on 992 A100s"
        ),
    )
