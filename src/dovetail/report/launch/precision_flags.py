"""Dtypes and the optimizer as the arguments of Megatron-LM's pretrain_gpt.py."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.plan.plan import Plan
from dovetail.report.launch.fallbacks import kept_weights
from dovetail.report.launch.launch import Flag, Missing, flag
from dovetail.workload.optimizer import Precision


def precision_flags(precision: Precision, plan: Plan) -> Iterator[Flag | Missing]:
    if precision.storage in ("bf16", "fp16"):
        yield flag(f"--{precision.storage}")
    if precision.compute == "fp8":
        yield flag("--fp8-format", "hybrid")
    if precision.compute == "tf32":
        why = "products in tf32 are PyTorch's to allow"
        yield Missing("compute in tf32, written as fp32", why, (("precision.compute", "fp32"),))
    if precision.storage != "fp32":
        yield from _gradients(precision)
    yield from kept_weights(precision)
    yield from _optimizer(precision, plan)


def _gradients(precision: Precision) -> Iterator[Flag | Missing]:
    if precision.gradients == "fp32":
        yield flag("--accumulate-allreduce-grads-in-fp32")
    elif precision.gradients == "bf16" and precision.storage == "bf16":
        yield flag("--grad-reduce-in-bf16")
    else:
        why = "they are kept in fp32, or with bf16 in bf16"
        yield Missing(f"gradients in {precision.gradients}", why, (("precision.gradients", "fp32"),))
    if precision.has_compute_gradients:
        instead = (("precision.has_compute_gradients", False),)
        yield Missing("compute_gradients", "gradients are added to the accumulated ones at once", instead)


def _optimizer(precision: Precision, plan: Plan) -> Iterator[Flag | Missing]:
    yield flag("--optimizer", precision.optimizer)
    if not precision.has_momentum:
        yield flag("--sgd-momentum", "0.0")
    is_aware = plan.zero_stage == 1 and precision.optimizer == "adam"
    if plan.offload_optimizer and is_aware:
        yield flag("--optimizer-cpu-offload")
        yield flag("--overlap-cpu-optimizer-d2h-h2d")
    elif plan.offload_optimizer:
        why = "it goes with Adam and the distributed optimizer, zero_stage 1"
        yield Missing("offload_optimizer", why, (("offload_optimizer", False),))
    if precision.moments != "fp32" and not is_aware:
        why = "narrow moments go with Adam and the distributed optimizer"
        yield Missing(f"moments in {precision.moments}", why, (("precision.moments", "fp32"),))
    if is_aware and (precision.moments != "fp32" or plan.offload_optimizer):
        yield flag("--use-precision-aware-optimizer")
    if is_aware and precision.moments != "fp32":
        yield flag("--exp-avg-dtype", precision.moments)
        yield flag("--exp-avg-sq-dtype", precision.moments)
