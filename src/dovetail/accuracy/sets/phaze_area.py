"""Areas of template chips at 22 nm as PHAZE has them, in square micrometres."""

from __future__ import annotations

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.cost.phaze_area import phaze_mm2
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import FloatArray

NEEDED = ("num_tc", "num_vc", "width", "depth", "width_vc", "glb_buffer", "area")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """The rows do not depend on any chip of ours; the formula has its own units."""
    tensor, vector, width, depth, lanes = (measurements.counts(column).astype(np.float64) for column in NEEDED[:5])
    buffer_bytes = measurements.positive("glb_buffer")
    areas_mm2 = phaze_mm2(
        num_tensor_units=tensor,
        num_rows=depth,
        num_cols=width,
        num_vector_units=vector,
        num_lanes=lanes,
        sram_bytes=buffer_bytes,
    )

    def predicted(_chip: Chip) -> FloatArray:
        return areas_mm2

    shapes = zip(tensor.tolist(), width.tolist(), depth.tolist(), vector.tolist(), lanes.tolist(), strict=True)
    prepared = Prepared(
        name="PHAZE area",
        chip=chip_for(given),
        unit="mm2",
        kinds=("area",) * len(measurements),
        whats=tuple(f"{t:g} of {w:g}x{d:g}, {v:g} of {n:g} lanes" for t, w, d, v, n in shapes),
        measured=measurements.positive("area") * MICRO,
        predicted=predicted,
        is_of_chip=False,
        promise="phaze area",
    )
    return (prepared,)


sets.register("phaze-area")(
    Format(needed=NEEDED, summary=f"areas at 22 nm: {', '.join(NEEDED)} in um2", prepare=prepare)
)
