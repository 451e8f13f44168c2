"""The reference page names every key that can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.files.inline_plan import SHORT_NAMES
from dovetail.files.schema import written_keys
from dovetail.hardware.chip import Calibration, Chip, EnergyCosts, TensorUnits, Tiling, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import Memory
from dovetail.hardware.topology import DIMENSION_KINDS
from dovetail.parallel.plan import Overlap, Plan
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "spec-file.md").read_text(encoding="utf-8")
CHIP_VALUES = (Chip, TensorUnits, Tiling, VectorUnits, Memory, Calibration, EnergyCosts, Die)
VALUES = (Plan, Overlap, Workload, Precision, *CHIP_VALUES)
KEYS = [(value.__name__, key) for value in VALUES for key in written_keys(value).values()]


def test_every_key_is_on_the_page():
    missing = [one for one in [*KEYS, *(("Plan", short) for short in SHORT_NAMES)] if f"`{one[1]}`" not in PAGE]
    assert not missing, f"docs/reference/spec-file.md does not name {missing}"


@pytest.mark.parametrize("kind", DIMENSION_KINDS)
def test_a_kind_of_dimension_is_on_the_page(kind):
    assert f"`{kind}`" in PAGE
