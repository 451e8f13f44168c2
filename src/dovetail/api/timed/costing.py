"""What is timed of operators' costs: a hundred of them on every chip of PHAZE's space."""

from __future__ import annotations

import numpy as np

from dovetail.api.timed.operation import Operation, Run, warm
from dovetail.cost.columns import ChipColumns
from dovetail.cost.costs import cost_table
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.phaze_space import BASE, phaze_chips
from dovetail.search.codesign.systems import built_systems, system_of
from dovetail.units import MEBI
from dovetail.workload.graph import Ops
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph, with_recompute

NUM_OPERATORS = 100


def _operators() -> Run:
    ops, columns = layer_operators(), phaze_columns()

    def run() -> float:
        cost_table(ops, columns)
        return len(ops) * len(columns)

    return warm(run)


def layer_operators() -> Ops:
    """Of a layer of DeepSeek-V3 with scores written out and all recomputed: the first hundred that a chip computes."""
    sample = Sample(batch=1, seq=512, dtype="bf16", attention="unfused", kernels="eager")
    graph = training_graph(models["deepseek-v3"]().forward(sample), Precision())
    ops = with_recompute(max((block.ops for block in graph.blocks), key=len), "full")
    computed = np.flatnonzero((ops.unit == Unit.TENSOR) | (ops.unit == Unit.VECTOR))
    return ops.taken(computed[:NUM_OPERATORS])


def phaze_columns() -> ChipColumns:
    """Every chip that PHAZE's area rule keeps."""
    base, kept = chips[BASE](), phaze_chips()
    columns = {
        "num_tensor": kept.num_tensor,
        "num_rows": kept.depth,
        "num_cols": kept.width,
        "num_vector": kept.num_vector,
        "num_lanes": kept.width,
        "sram_mib": kept.sram_bytes / MEBI,
    }
    fixed = {name: np.full(len(kept), value) for name, value in system_of(base, 1).items()}
    return built_systems(base, fixed | {name: column.astype(np.float64) for name, column in columns.items()}).chips


OPERATIONS = (
    Operation(name="operators", what="100 operators on 29,360 chips", made=_operators, item="pairs", num_runs=3),
)
