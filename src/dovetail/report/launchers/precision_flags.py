"""Dtypes and the optimizer as the arguments of Megatron-LM's pretrain_gpt.py."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.parallel.plan import Plan
from dovetail.report.launchers.fallbacks import kept_weights, offered_optimizer, wide_products
from dovetail.report.launchers.launch import Flag, Missing, flag
from dovetail.workload.optimizer import Precision

MEGATRON_LM = "megatron-lm"
_SHARDING = {2: "optim_grads", 3: "optim_grads_params"}


def precision_flags(precision: Precision, plan: Plan) -> Iterator[Flag | Missing]:
    if precision.storage in ("bf16", "fp16"):
        yield flag(f"--{precision.storage}")
    if precision.scaling is not None:
        told = precision.scaling.launch.get(MEGATRON_LM)
        if told is None:
            yield wide_products(precision, f"it has no recipe like {precision.recipe}")
        yield from (flag(*argument) for argument in told or ())
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
    precision, named, missing = offered_optimizer(precision, MEGATRON_LM)
    yield from missing
    yield flag("--optimizer", named.sharded if named.sharded and plan.zero_stage else named.name)
    yield from (flag(*argument) for argument in named.arguments)
    if not precision.has_momentum:
        yield flag("--sgd-momentum", "0.0")
    is_offloaded = plan.offload_optimizer and plan.zero_stage == 1 and named.can_offload
    if is_offloaded:
        yield flag("--optimizer-cpu-offload")
        yield flag("--overlap-cpu-optimizer-d2h-h2d")
    elif plan.offload_optimizer:
        why = "it goes with Adam and the distributed optimizer, zero_stage 1"
        yield Missing("offload_optimizer", why, (("offload_optimizer", False),))
    is_narrow = precision.moments != "fp32" and plan.zero_stage == 1 and named.can_narrow_moments
    if precision.moments != "fp32" and not is_narrow:
        why = "narrow moments go with Adam and the distributed optimizer"
        yield Missing(f"moments in {precision.moments}", why, (("precision.moments", "fp32"),))
    if is_narrow or is_offloaded:
        yield flag("--use-precision-aware-optimizer")
    if is_narrow:
        yield flag("--exp-avg-dtype", precision.moments)
        yield flag("--exp-avg-sq-dtype", precision.moments)


def sharding_flags(precision: Precision, plan: Plan) -> Iterator[Flag | Missing]:
    """ZeRO-1 is the distributed optimizer; from ZeRO-2 on it is Megatron-FSDP, with what that asks for.

    An optimizer whose sharded form goes by a name of its own needs no flag beside it, and goes with ZeRO-1 alone.
    """
    if plan.zero_stage == 0:
        return
    if offered_optimizer(precision, MEGATRON_LM)[1].sharded:
        if plan.zero_stage > 1:
            message = f"zero_stage {plan.zero_stage}, written as zero_stage 1"
            yield Missing(message, f"{precision.optimizer} shards its state alone", (("zero_stage", 1),))
        return
    yield flag("--use-distributed-optimizer")
    if plan.zero_stage > 1:
        yield flag("--use-megatron-fsdp")
        yield flag("--data-parallel-sharding-strategy", _SHARDING[plan.zero_stage])
        yield flag("--no-gradient-accumulation-fusion")
        yield flag("--ckpt-format", "fsdp_dtensor")
