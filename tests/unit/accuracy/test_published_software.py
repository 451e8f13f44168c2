"""The year of a published run's software, and what follows from it: products of early Hopper, recompute of Composer."""

from __future__ import annotations

import pytest

from dovetail.accuracy.runs.machines import EARLY_HOPPER_FRAC, is_early_hopper, machine_of
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.stacks import stack_of
from dovetail.hardware.catalog import chips


def row(**cells: str) -> Row:
    return Row(cells=cells)


@pytest.mark.parametrize(
    ("cells", "year"),
    [
        ({"framework": "NVIDIA NeMo Framework Release 23.09", "source": "MLPerf Training v3.1"}, 2023),
        ({"source": "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md"}, 2024),
        ({"source": "pytorch/torchtitan benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md"}, 2025),
        ({"source": "NVIDIA NeMo performance summary 24.07 (docs)"}, 2024),
        ({"source": "DeepSeek-V3, arXiv:2412.19437"}, 2024),
        ({"source": "NVIDIA Megatron-Bridge", "source_location": "docs/x.md@1, 26.02.01 container"}, 2026),
        ({"source": "MosaicML llm-foundry scripts/train/benchmarking/README.md"}, 2023),
        ({"source": "Narayanan et al. 2021, table 2"}, 0),  # a paper's year alone is no month of its software
        ({"source": "my own runs"}, 0),
    ],
)
def test_the_year_of_the_software_is_what_the_row_says(cells: dict[str, str], year: int) -> None:
    assert row(**cells).software_year == year


@pytest.mark.parametrize(
    ("gpu", "source", "is_early"),
    [
        ("H100-80GB SXM", "NVIDIA NeMo performance summary 24.07", True),
        ("H800-80GB", "DeepSeek-V3, arXiv:2412.19437", True),
        ("H100-80GB SXM", "runs of 2025-06", False),
        ("H100-80GB SXM", "my own runs", False),
        ("a100_80gb", "MosaicML llm-foundry", False),
    ],
)
def test_products_of_early_software_on_hopper_have_a_share_of_todays_pace(gpu, source, is_early) -> None:
    found = row(gpu=gpu, source=source)
    assert is_early_hopper(found) == is_early
    share = machine_of(found).chip.calibration.tensor_frac / chips["h100-sxm"]().calibration.tensor_frac
    assert share == pytest.approx(EARLY_HOPPER_FRAC if is_early else 1.0)


def test_composers_later_tables_stop_recompute_early_and_its_first_do_not() -> None:
    framework, fsdp = "Composer FSDP + FlashAttention", "FSDP FULL_SHARD; MP mode {}"
    later, first = (stack_of(row(framework=framework, notes=fsdp.format(mode))) for mode in ("DEFAULT", "PURE"))
    assert (later.kernels, first.kernels) == ("eager", "classic")
    assert later.framework == first.framework == "fsdp"
