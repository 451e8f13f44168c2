"""An operator of one's own, the cost of another on one chip, and a model that has both.

dovetail op relu_squared 16384x8192 --chip h200-sxm --plugin examples/plugins/operator_cost.py
dovetail op rmsnorm 16384x4096 --chip h200-sxm --plugin examples/plugins/operator_cost.py
dovetail simulate --model squared-1b --cluster h200x8 --plan auto --plugin examples/plugins/operator_cost.py
"""

from __future__ import annotations

from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.rows import Rows
from dovetail.cost.own_costs import operator_costs
from dovetail.workload.graph import FloatArray
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.operators import Operator, Pass, Unit, operators
from dovetail.workload.transformer import Transformer

HBM_FRAC = 0.85  # what if: a kernel of our own that reaches so much of the HBM's bandwidth

# max(x, 0)^2: one tensor in, one out; on the way back gradient and input in, one out, a compare and two products
operators.register("relu_squared")(
    Operator(
        name="relu_squared",
        unit=Unit.VECTOR,
        forward=Pass(flop_per_element=2),
        backward=Pass(num_reads=2, flop_per_element=3),
        keeps_input=True,
    )
)


@operator_costs.register("rmsnorm@h200-sxm")
def rmsnorm_s(rows: Rows, chips: ChipColumns) -> FloatArray:
    """Every byte once, forward and backward, at what our kernel reaches: rows by chips."""
    return (rows.in_bytes + rows.out_bytes) / (HBM_FRAC * chips.hbm_bytes_per_s)


@models.register("squared-1b")
def squared_1b() -> Model:
    shape = Transformer(
        name="squared-1b",
        num_layers=24,
        hidden=2048,
        num_heads=16,
        num_kv_heads=16,
        head_width=128,
        ffn_width=8192,
        vocab=50_304,
        activation="relu_squared",
    )
    return Model(
        architecture=shape,
        family="sketch",
        seq=2048,
        sample="tokens",
        published_parameters=0.0,  # nobody published it
        is_exact=False,
        source="a sketch of ours; the activation is that of So et al. 2021, Primer, arXiv:2109.08668",
    )
