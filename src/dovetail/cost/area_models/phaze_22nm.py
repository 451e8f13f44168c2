"""PHAZE's model, to compare with it on its own terms."""

from __future__ import annotations

from dovetail.cost.area_models import area_models
from dovetail.cost.phaze_area import phaze_mm2
from dovetail.hardware.chip import Chip


@area_models.register("phaze-22nm")
def phaze_22nm_mm2(chip: Chip) -> float:
    """Arrays, lanes and buffers of `chip` at 22 nm; whatever its node, without network, PHYs, control or I/O."""
    tensor, vector = chip.tensor, chip.vector
    return float(
        phaze_mm2(
            num_tensor_units=tensor.num_units,
            num_rows=tensor.num_rows,
            num_cols=tensor.num_cols,
            num_vector_units=vector.num_units,
            num_lanes=vector.num_lanes,
            sram_bytes=chip.sram.capacity_bytes,
        )
    )
