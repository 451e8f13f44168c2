"""The plan that a recorded step of many ranks follows, where it is one: axes, ZeRO stage, microbatches, recompute.

The axis of a communicator is what its label says where that is the name of a mesh dim that PyTorch and TorchTitan use;
else what is called on it tells. Sharded parameters are gathered before forward passes, and their gradients reduced and
scattered in backward passes. Tensor parallelism reduces in forward passes too. Data parallelism reduces gradients
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod

from dovetail.errors import InvalidInput
from dovetail.parallel.plan import AXES, Plan
from dovetail.step.eager import recomputed_from
from dovetail.units import KIBI
from dovetail.workload.dispatched import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    CollectiveCall,
    DispatchedOp,
    DispatchedStep,
    DistributedStep,
    RankStep,
)

SMALL_BYTES = 4 * KIBI  # losses, norms and counts: nothing that a plan is made of
# Names of mesh dims in PyTorch's tutorials and in TorchTitan, and what they are.
ROLES = {
    "tp": "tensor", "tensor": "tensor", "tensor_parallel": "tensor", "etp": "tensor",
    "pp": "pipeline", "pipe": "pipeline", "pipeline": "pipeline",
    "cp": "context", "context": "context", "sp": "context",
    "ep": "expert", "expert": "expert",
    "dp": "data", "data": "data", "ddp": "data", "batch": "data", "dp_cp": "data",
    "fsdp": "shard", "shard": "shard", "dp_shard": "shard", "dp_shard_cp": "shard", "efsdp": "expert shard",
    "dp_shard_mod_ep": "expert shard", "dp_shard_in_ep": "data part", "replicate": "replicate",
    "dp_replicate": "replicate", "hsdp": "replicate",
}  # fmt: skip
DATA_ROLES = ("data", "shard", "replicate")
SUMS = ("all-reduce", "reduce-scatter")
REDUCING = {f"{phase} {kind}" for phase in (BACKWARD, OPTIMIZER) for kind in SUMS}
SHARDING = {"forward all-gather", "backward reduce-scatter"}
WITH_CONTEXT = ("dp_cp", "dp_shard_cp")  # dims that hold context-parallel ranks too
PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.linear", "aten.matmul", "aten._grouped_mm")
EMBEDDING, CONVOLUTION = "aten.embedding.default", "aten.convolution.default"
NUM_COLOURS = 3
FLOATS = ("fp32", "bf16", "fp16")
FULL_FRAC = 0.8  # of a stage's products, run again: all of its layers; embedding and head are outside of them
EVERY_OTHER = (0.3, 0.7)  # TorchTitan's selective_ac_option "op" runs every second product again
PYTORCH = "torchtitan"  # the framework whose buffers are those of FSDP2 and of PyTorch's pipeline stages
AXIS_OF = {"tensor": "tp", "context": "cp", "pipeline": "pp", "data": "dp", "shard": "dp", "replicate": "dp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """A group of ranks that a recorded rank calls collectives in, and what it is for."""

    group: str
    ranks: tuple[int, ...]
    role: str
    kinds: tuple[str, ...]

    @property
    def stride(self) -> int:
        return min((abs(two - one) for one, two in zip(self.ranks, self.ranks[1:], strict=False)), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What a recorded step is: `plans` holds the plan, or nothing and `reasons` say why there is none.

    `batch` is that of one microbatch on one data-parallel rank, `seq` the whole length of a sample, 0 where the code
    takes no tokens. `degrees` are those found, by axis. `num_parameters` are those that the code trains as its ranks
    count them: a DTensor counts whole, and what code shards by hand counts as one rank holds it.
    """

    plans: tuple[Plan, ...]
    reasons: tuple[str, ...]
    communicators: tuple[Communicator, ...]
    degrees: tuple[tuple[str, int], ...]
    batch: int = 0
    seq: int = 0
    num_microbatches: int = 0
    num_parameters: int = 0
    compute_dtype: str = "bf16"  # of most products
    gradient_dtype: str = "fp32"  # as gradients are reduced
    state_dtype: str = "fp32"  # of the parameters that the optimizer updates

    @property
    def global_batch(self) -> int:
        return self.batch * self.num_microbatches * dict(self.degrees).get("dp", 1)


@dataclass(slots=True)
class _Found:
    """Degrees and reasons, as they are found."""

    step: DistributedStep
    communicators: tuple[Communicator, ...]
    reasons: list[str] = field(default_factory=list)
    degrees: dict[str, int] = field(default_factory=dict)

    def of_role(self, *roles: str) -> tuple[Communicator, ...]:
        return tuple(one for one in self.communicators if one.role in roles)

    def degree(self, *roles: str) -> int:
        """The size of the groups of these roles; 1 where there is none."""
        sizes = {len(one.ranks) for one in self.of_role(*roles)}
        if len(sizes) > 1:
            shown = ", ".join(map(str, sorted(sizes)))
            self.reasons.append(f"{roles[0]}-parallel groups have different sizes: {shown}")
        return max(sizes, default=1)


def recognised_plan(step: DistributedStep) -> Recognised:
    """The plan that `step` follows, or why it follows none."""
    found = _Found(step, communicators_of(step))
    dims = dict(step.mesh)
    stages = _num_stages(step, found)
    tp, cp, ep = found.degree("tensor"), found.degree("context"), found.degree("expert")
    for dim, size in dims.items():  # a dim with no collective of its own still divides the ranks
        if ROLES.get(dim) == "context":
            cp = max(cp, size)
        elif ROLES.get(dim) == "expert":
            ep = max(ep, size)
    dp = _data_parallel(found, dims, cp, tp * cp * stages)
    found.degrees = {"dp": dp, "tp": tp, "pp": stages, "cp": cp, "ep": ep}
    if dp * tp * cp * stages != step.world_size:
        shown = [f"{axis} {size}" for axis, size in found.degrees.items() if size > 1 and axis != "ep"]
        if shown:  # else a reason says that nothing reduces gradients
            found.reasons.append(f"{' and '.join(shown)} make {dp * tp * cp * stages:,} of {step.world_size:,} ranks")
    first = step.ranks[0].step
    batch, seq, num_microbatches = _samples(first)
    if not batch:
        found.reasons.append("no embedding of tokens and no image shows how many samples a microbatch has")
    schedule = _schedule(found, first, stages, num_microbatches) if stages > 1 and num_microbatches else "1f1b"
    plans = _plans(found, schedule, batch) if not found.reasons else ()
    return Recognised(
        plans=plans if not found.reasons else (),
        reasons=tuple(found.reasons),
        communicators=found.communicators,
        degrees=tuple(found.degrees.items()),
        batch=batch,
        seq=seq * cp,
        num_microbatches=num_microbatches,
        num_parameters=(sum if stages > 1 else max)(one.step.num_parameters for one in step.ranks),
        compute_dtype=_most([_made(op) for op in first.ops if op.phase == FORWARD and _is_product(op)], "bf16"),
        gradient_dtype=_most(_reduced_dtypes(found), "fp32"),
        state_dtype=_most([_read(op) for op in first.ops if op.phase == OPTIMIZER], "fp32"),
    )


def _plans(found: _Found, schedule: str, batch: int) -> tuple[Plan, ...]:
    degrees = found.degrees
    recompute = _recompute(found)
    zero_stage = _zero_stage(found)
    if found.reasons:
        return ()
    tensor, context = found.of_role("tensor"), found.of_role("context")
    try:
        return (
            Plan(
                tensor_parallel=degrees["tp"],
                sequence_parallel=any("forward reduce-scatter" in one.kinds for one in tensor),
                context_parallel=degrees["cp"],
                context_comm_type=_context_comm_type(context),
                pipeline_parallel=degrees["pp"],
                schedule=schedule,
                data_parallel=degrees["dp"],
                expert_parallel=degrees["ep"],
                zero_stage=zero_stage,
                microbatch=batch,
                recompute=(recompute,),
                framework=PYTORCH if found.of_role("shard", "pipeline") else "plain",
                axis_order=_axis_order(found),
            ),
        )
    except InvalidInput as error:
        found.reasons.append(str(error))
        return ()


def communicators_of(step: DistributedStep) -> tuple[Communicator, ...]:
    """The groups that recorded ranks call collectives in, each once; those with only small messages are left out."""
    kinds: dict[tuple[str, tuple[int, ...]], set[str]] = {}
    for recorded in step.ranks:
        for op, call in _calls(recorded):
            if len(call.ranks) > 1:
                kinds.setdefault((call.group, call.ranks), set()).add(f"{op.phase} {call.kind}")
    return tuple(
        Communicator(group=group, ranks=ranks, role=_role(group, called), kinds=tuple(sorted(called)))
        for (group, ranks), called in kinds.items()
    )


def _calls(recorded: RankStep) -> Iterator[tuple[DispatchedOp, CollectiveCall]]:
    """Large messages of a rank; sums between a backward pass and the next forward pass belong to the backward pass."""
    is_after_backward = False
    for op in recorded.step.ops:
        call = op.collective
        if op.phase == BACKWARD:
            is_after_backward = True
        elif op.phase == FORWARD and (_is_product(op) or op.name in (EMBEDDING, CONVOLUTION)):
            is_after_backward = False
        if call is None or call.num_bytes <= SMALL_BYTES or call.kind == "barrier":
            continue
        is_sum_of_gradients = is_after_backward and op.phase == FORWARD and call.kind in SUMS
        yield (replace(op, phase=BACKWARD) if is_sum_of_gradients else op), call


def _role(group: str, kinds: Iterable[str]) -> str:
    """By its name, but whether ranks of other samples shard parameters is what is called."""
    words = set(kinds)
    named = ROLES.get(group, "")
    if named in DATA_ROLES:
        return "shard" if words & SHARDING else "data" if named == "shard" else named
    if named:
        return named
    names = {one.partition(" ")[2] for one in words}
    if names & {"send", "recv"}:
        return "pipeline"
    if "all-to-all" in names:
        return "expert"
    if words & {"forward all-reduce", "forward reduce-scatter"}:
        return "tensor"
    if words & SHARDING:
        return "shard"
    return "data" if "all-reduce" in names else "other"


def _num_stages(step: DistributedStep, found: _Found) -> int:
    named = [size for dim, size in step.mesh if ROLES.get(dim) == "pipeline"]
    if named:
        return named[0]
    members = {rank for one in found.of_role("pipeline") for rank in one.ranks}
    return max(len(step.ranks) if members else 1, 1)


def _data_parallel(found: _Found, dims: dict[str, int], cp: int, num_others: int) -> int:
    """Ranks that take other samples: those of sharded and of replicated parameters."""
    shard, replicate, data = (found.of_role(role) for role in ("shard", "replicate", "data"))
    if shard and (replicate or data):
        of_shard = max(len(one.ranks) for one in shard)
        whole = of_shard * max(len(one.ranks) for one in (*replicate, *data))
        found.reasons.append(
            f"parameters are sharded over {of_shard:,} of {whole:,} data-parallel ranks (HSDP); a plan shards them"
            " over all or none"
        )
    sizes = {len(one.ranks) // (cp if cp > 1 and _holds_context(one, dims) else 1) for one in (*shard, *data)}
    if replicate and not shard:
        sizes = {len(one.ranks) for one in replicate}
    if len(sizes) > 1:
        found.reasons.append(f"data-parallel groups have different sizes: {', '.join(map(str, sorted(sizes)))}")
    if sizes:
        return max(sizes) * (max(len(one.ranks) for one in replicate) if shard and replicate else 1)
    if found.step.world_size > num_others:
        experts = [len(one.ranks) for one in _reducing_experts(found)]
        if experts:  # what is not of experts is data parallel over their ranks
            return max(experts)
        left = found.step.world_size // num_others
        found.reasons.append(f"no collective over {left:,} ranks reduces gradients")
    return 1


def _reducing_experts(found: _Found) -> tuple[Communicator, ...]:
    """Groups of expert-parallel ranks that reduce gradients too."""
    return tuple(one for one in found.of_role("expert") if REDUCING & set(one.kinds))


def _holds_context(one: Communicator, dims: dict[str, int]) -> bool:
    return one.group in WITH_CONTEXT or (one.group not in dims and any(ROLES.get(dim) == "context" for dim in dims))


def _zero_stage(found: _Found) -> int:
    """By what happens to parameters: gathered again in backward passes 3, kept from forward passes 2, by updates 1."""
    gathers = [0, 0]
    for op, call in _calls(found.step.ranks[0]):
        if call.kind == "all-gather" and any(one.ranks == call.ranks for one in found.of_role("shard")):
            gathers[op.phase == BACKWARD] += 1
    if found.of_role("shard"):
        return 3 if 2 * gathers[1] >= gathers[0] > 0 else 2
    updates = {
        kind.partition(" ")[2] for one in found.of_role("data") for kind in one.kinds if kind.startswith(OPTIMIZER)
    }
    return 1 if updates & {"all-gather", "broadcast"} else 0


def _context_comm_type(context: tuple[Communicator, ...]) -> str:
    names = {kind.partition(" ")[2] for one in context for kind in one.kinds}
    if names & {"send", "recv"}:
        return "ring"
    return "all-to-all" if "all-to-all" in names else "gather"


def _axis_order(found: _Found) -> tuple[str, ...]:
    """Axes by how far apart the ranks of their groups lie; those of one rank keep their usual place."""
    strides = dict.fromkeys((axis for axis in AXES if found.degrees[axis] > 1), 0)
    for one in found.communicators:
        axis = AXIS_OF.get(one.role, "")
        if axis in strides:
            strides[axis] = max(strides[axis], one.stride)
    ordered = iter(sorted(strides, key=lambda axis: strides[axis]))
    return tuple(next(ordered) if axis in strides else axis for axis in AXES)


def _samples(step: DispatchedStep) -> tuple[int, int, int]:
    """Samples of a microbatch, their length on this rank and how many microbatches there are; zeros where unknown."""
    looked_up = [op.inputs[1] for op in step.ops if op.name == EMBEDDING and op.phase == FORWARD and len(op.inputs) > 1]
    whole = [one.shape for one in looked_up if one is not None and len(one.shape) == 2]
    if whole:
        shape = max(whole, key=prod)
        return shape[0], shape[1], whole.count(shape)
    convolved = [op.inputs[0] for op in step.ops if op.name == CONVOLUTION and op.phase == FORWARD]
    images = [one.shape for one in convolved if one is not None and len(one.shape) == 4]
    pictures = [shape for shape in images if shape[1] == NUM_COLOURS]
    return (pictures[0][0], 0, pictures.count(pictures[0])) if pictures else (0, 0, 0)


def _schedule(found: _Found, first: DispatchedStep, num_stages: int, num_microbatches: int) -> str:
    """By how many microbatches enter the first stage before one comes back."""
    entered = 0
    for op in first.ops:
        if op.phase == BACKWARD and op.collective is None:
            break
        entered += op.name == EMBEDDING and op.phase == FORWARD
    sends = sum(1 for op in first.ops if op.collective is not None and op.collective.kind == "send")
    if sends > num_microbatches:
        found.reasons.append(f"the first rank sends {sends} times for {num_microbatches} microbatches: several chunks")
    if entered == min(num_stages, num_microbatches):
        return "1f1b"
    if entered != num_microbatches:
        found.reasons.append(
            f"{entered} of {num_microbatches} microbatches enter the first of {num_stages} stages before one comes"
            " back: neither 1F1B nor GPipe"
        )
    return "gpipe"


def _recompute(found: _Found) -> str:
    fracs = [_recomputed_frac(one.step) for one in found.step.ranks]
    most = max(fracs)
    if most == 0:
        return "none"
    if most >= FULL_FRAC:
        return "full"
    if EVERY_OTHER[0] <= most <= EVERY_OTHER[1]:
        return "selective-op"
    found.reasons.append(f"{100 * most:.0f} % of products are run again in the backward pass: no policy of a plan")
    return "none"


def _recomputed_frac(step: DispatchedStep) -> float:
    """Share of the forward pass's products that the backward pass runs again."""
    products = {place for place, op in enumerate(step.ops) if op.phase == FORWARD and _is_product(op)}
    again = {place for place in recomputed_from(step).values() if place in products}
    return len(again) / len(products) if products else 0.0


def _is_product(op: DispatchedOp) -> bool:
    return op.name.rpartition(".")[0] in PRODUCTS


def _reduced_dtypes(found: _Found) -> list[str]:
    groups = {one.ranks for one in (*found.of_role("shard", "data", "replicate"), *_reducing_experts(found))}
    sums = [op for op, call in _calls(found.step.ranks[0]) if op.phase == BACKWARD and call.ranks in groups]
    return [_read(op) for op in sums if op.collective and op.collective.kind in SUMS]


def _read(op: DispatchedOp) -> str:
    """The dtype of the first tensor that an operator reads; nothing where it reads none."""
    return next((tensor.dtype for tensor in op.inputs if tensor is not None), "")


def _made(op: DispatchedOp) -> str:
    return op.outputs[0].dtype if op.outputs else ""


def _most(dtypes: Iterable[str], default: str) -> str:
    """The floating-point dtype that comes most often."""
    counts = Counter(dtype for dtype in dtypes if dtype in FLOATS)
    return counts.most_common(1)[0][0] if counts else default
