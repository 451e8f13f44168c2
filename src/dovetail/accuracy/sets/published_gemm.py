"""Matrix products that others published for several GPUs in one table, the GPU named in the column `system`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import products
from dovetail.cost.op_cost import Setting
from dovetail.hardware.catalog import chips
from dovetail.units import MILLI

# Names of the table that the catalogue has otherwise; the rest are tried as they stand, '-' for '_'.
SYSTEMS = {
    "a100_sxm": "a100-80gb-sxm",
    "a100_sxm_40gb": "a100-40gb-sxm",
    "b200_sxm": "b200",
    "gb200_sxm": "gb200",
    "v100_sxm": "v100-32gb-sxm",
}


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """One set a system, under the name of its chip; systems that are in no catalogue are left out with a word."""
    systems = measurements.words("system")
    found: list[Prepared] = []
    skipped: list[tuple[str, int]] = []
    for system in sorted(set(systems)):
        rows = np.array([name == system for name in systems])
        name = SYSTEMS.get(system.lower(), system.lower().replace("_", "-"))
        if given.chip is None and name not in chips:
            skipped.append((f"rows of {system[:40]}, which no catalogue has; pass --chip", int(rows.sum())))
            continue
        table = measurements.where(rows)
        chip = given.chip if given.chip is not None else chips[name]()
        promise = promise_for(chip, "published gemm", name)
        one = products(typed(table, given, chip), chip, "latency_ms", MILLI, promise, Setting.KERNEL)
        label = f"gemm {name}" if chip.name == name else f"gemm {name} on {chip.name}"
        found.append(replace(one, name=label[:60], kinds=("matmul",) * len(one.kinds)))
    if not found:
        raise measurements.refused(f"no system of this table is in the catalogue: {', '.join(sorted(set(systems)))}")
    return (replace(found[0], skipped=(*found[0].skipped, *skipped)), *found[1:])


sets.register("published-gemm")(
    Format(
        needed=("system", "m", "n", "k", "latency_ms"),
        summary="matrix products of several GPUs: system, gemm_dtype, m, n, k, latency_ms",
        prepare=prepare,
        has_dtypes=True,
    )
)
