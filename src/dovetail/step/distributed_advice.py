"""What a change of distributed code would gain: its recorded operators as they would then be, priced again.

Only changes whose operators follow from those recorded: what other shapes or another order would take is not known of a
recording. Memory that a change would take more is counted against the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dovetail.hardware.cluster import Cluster
from dovetail.step.distributed import DistributedOutcome, distributed_step
from dovetail.step.eager import HostPace
from dovetail.step.eager_advice import IMMEDIATE, LEAST_FRAC, Advice
from dovetail.step.recognised import Communicator, communicators_of
from dovetail.units import MEBI
from dovetail.workload.dispatched import BACKWARD, CollectiveCall, DispatchedOp, DispatchedStep, DistributedStep

BUCKETS_BYTES = (100 * MEBI, 400 * MEBI)  # of DDP, to try; its default is 25 MiB (bucket_cap_mb)
FREE = "aten.alias.default"  # takes the device no time
COPY_OUT = "aten.split_with_sizes_copy"  # of what was gathered, to the parameters
AHEAD = "host-bound: CUDA graphs or torch.compile(mode='reduce-overhead')"

Groups = frozenset[tuple[int, ...]]
Change = Callable[[DispatchedStep, Groups], DispatchedStep]


def distributed_advice(now: DistributedOutcome, cluster: Cluster, host: HostPace | None = None) -> tuple[Advice, ...]:
    """What would make the step shorter, the largest gain first; each change by itself, and only where it fits."""
    if not now.step_s:
        return ()
    host = host or HostPace()
    found = []
    for words, changed, more_bytes in _changed(now.step):
        if now.fullest.needed_bytes + more_bytes > now.memory_bytes:
            continue
        then = distributed_step(changed, cluster, host)
        found.append(Advice(change=words, gain_s=now.step_s - then.step_s, gain_frac=1 - then.step_s / now.step_s))
    if any(rank.host_s > LEAST_FRAC * now.step_s for rank in now.ranks):
        then = distributed_step(now.step, cluster, replace(host, slowdown=IMMEDIATE))
        found.append(Advice(change=AHEAD, gain_s=now.step_s - then.step_s, gain_frac=1 - then.step_s / now.step_s))
    worthwhile = [one for one in found if one.gain_frac >= LEAST_FRAC]
    return tuple(sorted(worthwhile, key=lambda one: -one.gain_s))


def _changed(step: DistributedStep) -> Iterator[tuple[str, DistributedStep, float]]:
    """Changes in words, the step that each would be, and the bytes that it holds more on a rank."""
    known = communicators_of(step)
    shard, data = _groups(known, "shard"), _groups(known, "data", "replicate")
    if shard:
        more_bytes = max(_gathered_again_bytes(one.step, shard) for one in step.ranks)
        yield from _if_new(
            "keep parameters from the forward to the backward pass (reshard_after_forward=False)",
            step, shard, with_kept_parameters, more_bytes,
        )  # fmt: skip
        yield from _if_new(
            "reduce gradients in bf16 (MixedPrecisionPolicy's reduce_dtype)", step, shard | data, with_narrow_gradients
        )
    elif data:
        yield from _if_new("reduce gradients in bf16 (bf16_compress_hook)", step, data, with_narrow_gradients)
        tried = [step]
        for bucket_bytes in BUCKETS_BYTES:
            joined = replace(step, ranks=tuple(
                replace(one, step=with_buckets(one.step, data, bucket_bytes)) for one in step.ranks
            ))  # fmt: skip
            if joined not in tried:
                tried.append(joined)
                size = f"{bucket_bytes / MEBI:.0f}"
                yield f"reduce gradients in buckets of {size} MiB (bucket_cap_mb={size})", joined, 0.0


def _groups(known: tuple[Communicator, ...], *roles: str) -> Groups:
    return frozenset(one.ranks for one in known if one.role in roles)


def _if_new(
    words: str, step: DistributedStep, groups: Groups, change: Change, more_bytes: float = 0.0
) -> Iterator[tuple[str, DistributedStep, float]]:
    ranks = tuple(replace(one, step=change(one.step, groups)) for one in step.ranks)
    if ranks != step.ranks:
        yield words, replace(step, ranks=ranks), more_bytes


def _is_gathered_again(op: DispatchedOp, groups: Groups) -> bool:
    call = op.collective
    return call is not None and op.phase == BACKWARD and call.kind == "all-gather" and call.ranks in groups


def _gathered_again_bytes(step: DispatchedStep, groups: Groups) -> float:
    return float(sum(op.collective.num_bytes for op in step.ops if op.collective and _is_gathered_again(op, groups)))


def _without(op: DispatchedOp) -> DispatchedOp:
    """An operator that falls away: a view in its place, so that what waits for it waits for what is before it."""
    return replace(op, name=FREE, arguments=(), collective=None)


def with_kept_parameters(step: DispatchedStep, groups: Groups) -> DispatchedStep:
    """Without gathers of sharded parameters in the backward pass, and without the copies out of them."""
    if not any(_is_gathered_again(op, groups) for op in step.ops):
        return step
    ops = tuple(
        _without(op)
        if _is_gathered_again(op, groups) or (op.phase == BACKWARD and op.name.startswith(COPY_OUT))
        else op
        for op in step.ops
    )
    return replace(step, ops=ops)


def with_narrow_gradients(step: DispatchedStep, groups: Groups) -> DispatchedStep:
    """Sums of fp32 gradients in bf16: half the bytes."""
    return replace(step, ops=tuple(_narrowed(op, groups) for op in step.ops))


def _narrowed(op: DispatchedOp, groups: Groups) -> DispatchedOp:
    call = op.collective
    if call is None or not _is_sum(op, call, groups):
        return op
    dtypes = {tensor.dtype for tensor in (*op.inputs, *op.outputs) if tensor is not None}
    return replace(op, collective=replace(call, num_bytes=call.num_bytes // 2)) if dtypes == {"fp32"} else op


def _is_sum(op: DispatchedOp, call: CollectiveCall, groups: Groups) -> bool:
    return op.phase == BACKWARD and call.kind in ("reduce-scatter", "all-reduce") and call.ranks in groups


def with_buckets(step: DispatchedStep, groups: Groups, most_bytes: float) -> DispatchedStep:
    """Sums of gradients that follow each other in one group as one, up to `most_bytes`, where the last of them is."""
    ops, held, last = list(step.ops), 0, -1
    for place, op in enumerate(step.ops):
        call = op.collective
        if call is None or call.kind != "all-reduce" or not _is_sum(op, call, groups):
            continue
        is_joined = last >= 0 and held + call.num_bytes <= most_bytes and _is_like(step.ops[last], op)
        held = held + call.num_bytes if is_joined else call.num_bytes
        if is_joined:
            ops[last] = _without(step.ops[last])
            ops[place] = replace(op, collective=replace(call, num_bytes=held))
        last = place
    return replace(step, ops=tuple(ops))


def _is_like(one: DispatchedOp, other: DispatchedOp) -> bool:
    first, second = one.collective, other.collective
    return first is not None and second is not None and first.ranks == second.ranks and one.stream == other.stream
