"""The paper's workloads on its NPU and tori, and the one compute scale of each."""

from __future__ import annotations

from dovetail.hardware.catalog import chips
from dovetail.step.one_device.ace_loop import CONFIGURATIONS
from dovetail.step.one_device.training_program import AceWorkload, Program, chip_share, program
from dovetail.workload.models import models

DLRM_ALL_TO_ALL_BYTES = 512 * 64 * 64 * 2.0  # samples x tables x width, fp16

# The only fitted numbers: times of the cost model are multiplied by these. Least squares on average and maximum.
COMPUTE_SCALE = {"resnet-50": 0.02748, "gnmt": 0.1186, "dlrm": 1.4526}
SCALE_RANGE = {"resnet-50": (0.01, 0.08), "gnmt": (0.05, 0.5), "dlrm": (0.2, 2.0)}


def ace_workloads() -> tuple[AceWorkload, ...]:
    return (
        AceWorkload(name="resnet-50", model=models["resnet-50"](), samples_per_device=32, counts_all_parameters=False),
        AceWorkload(name="gnmt", model=models["gnmt"](), samples_per_device=128, counts_all_parameters=True),
        AceWorkload(
            name="dlrm",
            model=models["dlrm"](),
            samples_per_device=512,
            counts_all_parameters=True,
            all_to_all_bytes=DLRM_ALL_TO_ALL_BYTES,
        ),
    )


def programs(workload: AceWorkload) -> dict[str, Program]:
    """One program a configuration, each with the share of the NPU that compute has there; before any scale."""
    chip = chips["ace-npu"]()
    return {
        c.name: program(workload, chip_share(chip, c.compute_memory_bytes_per_s, c.compute_sms)) for c in CONFIGURATIONS
    }
