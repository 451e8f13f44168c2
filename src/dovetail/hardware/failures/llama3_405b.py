"""Llama 3 405B on 16,384 H100s: every unexpected interruption of 54 days of pre-training."""

from __future__ import annotations

from dovetail.hardware.failures import failures
from dovetail.hardware.reliability import Failures
from dovetail.units import SECONDS_PER_DAY


@failures.register("llama3-405b")
def llama3_405b() -> Failures:
    return Failures(
        mtbf_s=54 * SECONDS_PER_DAY / 419,  # arXiv:2407.21783, table 5: 419 unexpected interruptions in 54 days
        num_devices=16384,  # arXiv:2407.21783, section 3.3.4: on 16K GPUs
        source="Llama 3 paper (arXiv:2407.21783), table 5: 419 unexpected interruptions in 54 days on 16,384 H100s",
    )
