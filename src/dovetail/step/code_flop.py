"""FLOP that a model asks for in a recorded step, and the share of a cluster's peak that they come to."""

from __future__ import annotations

from dovetail.cost.eager.launches import packet_of
from dovetail.hardware.chip import Chip
from dovetail.step.distributed import DistributedOutcome, RankOutcome
from dovetail.step.eager import recomputed_from
from dovetail.step.recognised import PRODUCTS
from dovetail.workload.dispatched import BACKWARD, OPTIMIZER, DispatchedOp

CONVOLUTIONS = ("aten.convolution", "aten.convolution_backward")
FUSED_ATTENTION = "scaled_dot_product"
# Of five products of fused attention's backward pass the scores' is the forward pass's again (FlashAttention-2, Dao
# 2023, algorithm 2).
MODEL_FRAC_OF_BACKWARD = 4 / 5


def code_mfu_frac(outcome: DistributedOutcome, chip: Chip, dtype: str) -> float:
    """Model FLOP utilisation: products and attention of forward and backward passes, recompute left out.

    Fused attention counts the pairs that its mask leaves; attention written out counts all that its products compute.
    0 where the chip's tensor units have no rate for `dtype`.
    """
    rate_flop_per_s = dict(chip.tensor.rates).get(dtype, 0.0)
    flop = sum(_model_flop(one) * one.num_ranks for one in outcome.ranks)
    peak_flop = outcome.step_s * sum(one.num_ranks for one in outcome.ranks) * rate_flop_per_s
    return float(flop / peak_flop) if peak_flop else 0.0


def _model_flop(rank: RankOutcome) -> float:
    again = recomputed_from(rank.step)
    flop_by_op: list[float] = rank.flop.tolist()
    return sum(
        flop * _model_frac(op)
        for place, (op, flop) in enumerate(zip(rank.step.ops, flop_by_op, strict=True))
        if place not in again
    )


def _model_frac(op: DispatchedOp) -> float:
    """Share of an operator's FLOP that the model asks for; 0 of all but products, convolutions and fused attention."""
    packet = packet_of(op.name)
    if op.phase == OPTIMIZER:
        return 0.0
    if FUSED_ATTENTION in packet:
        return MODEL_FRAC_OF_BACKWARD if op.phase == BACKWARD and packet.endswith("backward") else 1.0
    return 1.0 if packet in PRODUCTS or packet in CONVOLUTIONS else 0.0
