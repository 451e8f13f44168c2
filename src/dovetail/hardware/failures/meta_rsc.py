"""Meta's research clusters of 16,000 and 8,000 A100s: eleven months of jobs of all sizes."""

from __future__ import annotations

from dovetail.hardware.failures import failures
from dovetail.hardware.reliability import Failures
from dovetail.units import SECONDS_PER_DAY

PAPER = "Kokolis et al., HPCA 2025 (arXiv:2410.21680)"
NUM_NODE = 8  # A100s of a node, arXiv:2410.21680, section II


@failures.register("meta-rsc-1")
def meta_rsc_1() -> Failures:
    return Failures(
        mtbf_s=1000 / 6.50 * SECONDS_PER_DAY,  # style: arXiv:2410.21680: 6.50 failures per thousand node-days
        num_devices=NUM_NODE,
        source=f"{PAPER}: 6.50 failures in a thousand days of nodes of eight A100s, RSC-1",
    )


@failures.register("meta-rsc-2")
def meta_rsc_2() -> Failures:
    return Failures(
        mtbf_s=1000 / 2.34 * SECONDS_PER_DAY,  # style: arXiv:2410.21680: 2.34 failures per thousand node-days
        num_devices=NUM_NODE,
        source=f"{PAPER}: 2.34 failures in a thousand days of nodes of eight A100s, RSC-2",
    )
