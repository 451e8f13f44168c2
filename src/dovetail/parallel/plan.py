"""The plan: parallel degrees, stages, microbatch, recompute, and where axes lie on the network.

`Plan` is one of them, checked; `Plans` are many as columns, which is how they are sharded and costed. A plan is a table
of one row: `columns_of` makes it, `Plans.plan` gives it back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from dovetail.columns import check_rows, distinct
from dovetail.errors import InvalidInput, did_you_mean, require_positive
from dovetail.parallel.dispatchers import ALL_TO_ALL, OLD_SWITCH, dispatcher_named, dispatchers
from dovetail.parallel.frameworks import framework_name
from dovetail.workload.checkpoint_policies import canonical, checkpoint_policies, does_policy_offload, is_by_tensor
from dovetail.workload.graph import BoolArray, IntArray

# By what they save with flash attention. selective: the attention core, as Megatron-LM has it; norm-activation: norms
# and activations, its recompute_modules layernorm and moe_act; selective-op: TorchTitan's selective_ac_option "op".
RECOMPUTE_POLICIES = ("none", "selective", "norm-activation", "selective-op", "full")
OLD_POLICIES = {"light": "norm-activation", "alternate": "selective-op"}  # as 0.1 called them: still read
CONTEXT_COMM_TYPES = ("gather", "ring", "all-to-all")  # how the devices of one sequence attend to all of it
AXES = ("tp", "cp", "dp", "pp")  # the axes that devices are counted by; expert groups lie inside tp, cp and dp


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Which communication is assumed to run beside compute. An assumption, so it is written down.

    `data`: gradient reductions behind the backward pass and parameter gathers behind the next compute.
    `tensor`: tensor-parallel collectives behind the products next to them (asynchronous tensor parallelism).
    `context`: keys and values behind attention, gathered or round a ring; heads dealt out are always waited for.
    `expert`: all-to-all behind the compute of another microbatch.
    `pipeline`: transfers between stages beside compute: no device spends time on them, the next stage waits for them.
    `host`: the host queues kernels while the device runs earlier ones; not so where each launch is waited for
    (CUDA_LAUNCH_BLOCKING). `routing`: nor does it wait to see how a mixture's rows were routed, which sizes the kernels
    behind (mixtures without a capacity, until their kernels learn it on the device).
    """

    data: bool = True
    tensor: bool = False
    context: bool = True
    expert: bool = False
    pipeline: bool = True
    host: bool = True
    routing: bool = True


def recompute_policies(names: tuple[str, ...]) -> tuple[str, ...]:
    """Policies by the names that they have now; those by tensor in their one form."""
    return tuple(canonical(OLD_POLICIES.get(name, name)) for name in names)


def policies_of(plans: Iterable[Plan]) -> tuple[str, ...]:
    """What policies of `plans` are counted by: RECOMPUTE_POLICIES, and behind them the policies by tensor they have."""
    by_tensor = {policy: None for plan in plans for policy in plan.recompute if policy not in RECOMPUTE_POLICIES}
    return (*RECOMPUTE_POLICIES, *by_tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run a model on a cluster.

    `recompute` and `layers_per_stage` hold one value a pipeline stage; a single recompute policy goes for all
    stages, and no layer counts means layers are spread evenly. A policy is one of RECOMPUTE_POLICIES or says where each
    tensor of a layer is (`workload.checkpoint_policies`). With `interleave` v, `layers_per_stage` counts the
    pp * v chunks in model order. `axis_order` lists axes from the innermost network dimension outwards. `schedule`
    names a pipeline schedule; 1f1b of several chunks a stage is interleaved 1F1B. `recompute_layers` says of how many
    layers of each stage the policy goes, one value or one a stage; none means of all. `offload_optimizer` puts the
    optimizer's state and update on the host, `offload_activations_frac` that share of what layers keep. `framework`
    names whose own buffers are counted. On a cluster of several pools `stage_pools` says on which of them, counted from
    0, each stage is; none means in the order of the pools. `context_comm_type` says how devices that share a sequence
    attend to all of it: they gather all keys and values, pass them round a ring, or deal heads out for positions all to
    all (Ulysses).
    """

    tensor_parallel: int = 1
    sequence_parallel: bool = False
    context_parallel: int = 1
    context_comm_type: str = "gather"
    pipeline_parallel: int = 1
    interleave: int = 1
    schedule: str = "1f1b"
    data_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int = 1
    dispatcher: str = ALL_TO_ALL  # how rows reach their experts, of `dispatchers`
    zero_stage: int = 0
    microbatch: int = 1
    recompute: tuple[str, ...] = ("none",)
    recompute_layers: tuple[int, ...] = ()
    layers_per_stage: tuple[int, ...] = ()
    stage_pools: tuple[int, ...] = ()
    offload_optimizer: bool = False
    offload_activations_frac: float = 0.0
    framework: str = "plain"
    axis_order: tuple[str, ...] = AXES
    overlap: Overlap = field(default_factory=Overlap)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recompute", recompute_policies(self.recompute))
        object.__setattr__(self, "framework", framework_name(self.framework))
        said = OLD_SWITCH.get(self.dispatcher, self.dispatcher)
        object.__setattr__(self, "dispatcher", dispatcher_named(said).name)
        self._check_counts()
        self._check_recompute()
        self._check_memory_choices()
        if sorted(self.axis_order) != sorted(AXES):
            raise InvalidInput(
                f"axis_order must hold each of {', '.join(AXES)} once; got {', '.join(self.axis_order)}", "axis_order"
            )
        if self.context_comm_type not in CONTEXT_COMM_TYPES:
            message = (
                f"context_comm_type must be one of {', '.join(CONTEXT_COMM_TYPES)}; got {self.context_comm_type!r}"
            )
            raise InvalidInput(
                f"{message}{did_you_mean(self.context_comm_type, CONTEXT_COMM_TYPES)}", "context_comm_type"
            )
        if self.interleave > 1 and self.pipeline_parallel == 1:
            raise InvalidInput(f"interleave={self.interleave} needs pipeline_parallel above 1; got 1", "interleave")
        num_chunks = self.num_chunks
        if self.layers_per_stage and len(self.layers_per_stage) != num_chunks:
            raise InvalidInput(
                f"layers_per_stage has {len(self.layers_per_stage)} values and must have one per stage: {num_chunks}",
                "layers_per_stage",
            )
        if self.stage_pools and len(self.stage_pools) != self.pipeline_parallel:
            message = f"stage_pools has {len(self.stage_pools)} values and must have one per stage"
            raise InvalidInput(f"{message}: {self.pipeline_parallel}", "stage_pools")

    def _check_recompute(self) -> None:
        for policy in self.recompute:
            if policy not in RECOMPUTE_POLICIES and not is_by_tensor(policy):
                known = (*RECOMPUTE_POLICIES, *checkpoint_policies.names())
                raise InvalidInput(f"no recompute policy is named {policy!r}{did_you_mean(policy, known)}", "recompute")
        for label in ("recompute", "recompute_layers"):
            num_values = len(getattr(self, label))
            is_whole = label == "recompute_layers" and num_values == 0
            if not is_whole and num_values not in (1, self.pipeline_parallel):
                raise InvalidInput(
                    f"{label} has {num_values} values; give 1, or 1 per stage: {self.pipeline_parallel}", label
                )
        layers = self.recompute_layers
        if any(count < 0 for count in layers):
            raise InvalidInput(f"recompute_layers must not be negative; got {min(layers)}", "recompute_layers")
        if any(layers) and set(self.recompute) == {"none"}:
            counts = ", ".join(map(str, layers))
            message = f"recompute_layers={counts} goes with a recompute policy, and that is none"
            raise InvalidInput(f"{message}; set recompute: full, or leave recompute_layers out", "recompute_layers")

    def _check_memory_choices(self) -> None:
        if not 0.0 <= self.offload_activations_frac <= 1.0:
            raise InvalidInput(
                f"offload_activations_frac must be from 0 to 1; got {self.offload_activations_frac:g}",
                "offload_activations_frac",
            )

    def _check_counts(self) -> None:
        require_positive(
            self, "tensor_parallel", "context_parallel", "pipeline_parallel", "interleave", "data_parallel"
        )
        require_positive(self, "expert_parallel", "expert_tensor_parallel", "microbatch")
        if self.zero_stage not in (0, 1, 2, 3):
            raise InvalidInput(f"zero_stage must be 0, 1, 2 or 3; got {self.zero_stage}", "zero_stage")
        if any(count < 0 for count in self.layers_per_stage):
            raise InvalidInput(
                f"layers_per_stage must not be negative; got {min(self.layers_per_stage)}", "layers_per_stage"
            )
        if self.expert_tensor_parallel not in (1, self.tensor_parallel):
            raise InvalidInput(
                f"expert_tensor_parallel={self.expert_tensor_parallel} must be 1"
                f" or tensor_parallel={self.tensor_parallel}",
                "expert_tensor_parallel",
            )

    @property
    def deduplicated_dispatch(self) -> bool:
        """Whether a row bound for several experts of one device or node crosses the network to it once."""
        return dispatchers[self.dispatcher].is_deduplicated

    @property
    def num_devices(self) -> int:
        return self.tensor_parallel * self.context_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def offloads_activations(self) -> bool:
        """Whether something that layers keep is on the host."""
        return bool(self.offload_activations_frac) or any(map(does_policy_offload, self.recompute))

    @property
    def num_chunks(self) -> int:
        """Pieces the layers are cut into: stages times interleave."""
        return self.pipeline_parallel * self.interleave

    @property
    def chunk_stages(self) -> tuple[tuple[int, ...], ...]:
        """The stages that hold each chunk, in model order.

        Chunks go round the stages; down and up again with ZB-V; from both ends, so on two stages each, with DualPipe.
        """
        last = self.pipeline_parallel - 1
        if self.schedule == "dualpipe":
            return tuple((chunk % (last + 1), last - chunk % (last + 1)) for chunk in range(self.num_chunks))
        if self.schedule == "zb-v":
            down = [(stage,) for stage in range(self.pipeline_parallel)]
            there_and_back = (*down, *down[::-1])
            return tuple(there_and_back[chunk % len(there_and_back)] for chunk in range(self.num_chunks))
        return tuple((chunk % self.pipeline_parallel,) for chunk in range(self.num_chunks))

    @property
    def num_copies(self) -> int:
        """How many stages hold each chunk, sharing the microbatches."""
        return len(self.chunk_stages[0])

    @property
    def expert_data_parallel(self) -> int:
        """Devices that hold the same experts."""
        ranks = self.tensor_parallel * self.context_parallel * self.data_parallel
        return ranks // (self.expert_parallel * self.expert_tensor_parallel)

    def degree(self, axis: str) -> int:
        """Degree of a device axis by its short name."""
        return {
            "tp": self.tensor_parallel,
            "cp": self.context_parallel,
            "dp": self.data_parallel,
            "pp": self.pipeline_parallel,
        }[axis]

    def recompute_of(self, stage: int) -> str:
        return self.recompute[stage] if len(self.recompute) > 1 else self.recompute[0]

    def num_recomputed_of(self, stage: int, num_layers: int) -> int:
        """Of `num_layers` layers of a stage, how many its recompute policy goes for."""
        if not self.recompute_layers:
            return num_layers
        count = self.recompute_layers[stage] if len(self.recompute_layers) > 1 else self.recompute_layers[0]
        return min(count, num_layers)

    def num_microbatches(self, global_batch: int) -> int:
        """Microbatches a device group works through in one step."""
        share = self.data_parallel * self.microbatch
        if global_batch % share:
            near = ", ".join(
                str(b) for b in (share * (global_batch // share), share * math.ceil(global_batch / share)) if b
            )
            raise InvalidInput(
                f"data_parallel={self.data_parallel} x microbatch={self.microbatch}"
                f" must divide global_batch={global_batch}; try global_batch {near}",
                "microbatch",
            )
        return global_batch // share


OVERLAPS = tuple(field.name for field in fields(Overlap))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plans:
    """Columns of plans whose layers are spread evenly and whose stages all recompute alike.

    `recompute`, `context_comm_type`, `dispatcher`, `schedule` and `axis_order` are indices: into `policies`,
    CONTEXT_COMM_TYPES, the names of `dispatchers`, `schedules` and `axis_orders`. `policies` begin with
    RECOMPUTE_POLICIES. `overlap` has one column for each of OVERLAPS. Framework and offload are the same for all.
    """

    tensor_parallel: IntArray
    sequence_parallel: BoolArray
    context_parallel: IntArray
    context_comm_type: IntArray
    pipeline_parallel: IntArray
    interleave: IntArray
    data_parallel: IntArray
    expert_parallel: IntArray
    expert_tensor_parallel: IntArray
    dispatcher: IntArray
    zero_stage: IntArray
    microbatch: IntArray
    recompute: IntArray
    schedule: IntArray
    axis_order: IntArray
    overlap: BoolArray
    schedules: tuple[str, ...]
    axis_orders: tuple[tuple[str, ...], ...]
    framework: str = "plain"
    offload_optimizer: bool = False
    offload_activations_frac: float = 0.0
    policies: tuple[str, ...] = RECOMPUTE_POLICIES

    def __post_init__(self) -> None:
        check_rows({name: getattr(self, name) for name in _COLUMNS})

    def __len__(self) -> int:
        return len(self.tensor_parallel)

    @property
    def num_devices(self) -> IntArray:
        return self.tensor_parallel * self.context_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def expert_data_parallel(self) -> IntArray:
        """Devices that hold the same experts."""
        ranks = self.tensor_parallel * self.context_parallel * self.data_parallel
        return ranks // (self.expert_parallel * self.expert_tensor_parallel)

    @property
    def offloads_activations(self) -> bool:
        """Whether something that layers keep is on the host, in one of the plans at least."""
        return bool(self.offload_activations_frac) or any(map(does_policy_offload, self.policies))

    def overlaps(self, name: str) -> BoolArray:
        """Whether each plan lets this communication run beside compute."""
        return np.asarray(self.overlap[:, OVERLAPS.index(name)])

    def plan(self, row: int) -> Plan:
        """One of them as a value."""
        counts: dict[str, Any] = {name: int(getattr(self, name)[row]) for name in _COUNTS}
        return Plan(
            **counts,
            **{name: getattr(self, name) for name in _COMMON},
            sequence_parallel=bool(self.sequence_parallel[row]),
            dispatcher=dispatchers.names()[self.dispatcher[row]],
            context_comm_type=CONTEXT_COMM_TYPES[self.context_comm_type[row]],
            recompute=(self.policies[self.recompute[row]],),
            schedule=self.schedules[self.schedule[row]],
            axis_order=self.axis_orders[self.axis_order[row]],
            overlap=Overlap(**{name: bool(flag) for name, flag in zip(OVERLAPS, self.overlap[row], strict=True)}),
        )

    def distinct_but_for(self, *names: str) -> tuple[IntArray, IntArray]:
        """Plans that differ in other columns than these: the first of each, and which of them every row is."""
        columns = (getattr(self, name) for name in _COLUMNS if name not in names)
        return distinct(*(part for column in columns for part in np.atleast_2d(column.T)))

    def at(self, rows: IntArray) -> Plans:
        """Some of them, in the order given."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Plans(**columns, **{name: getattr(self, name) for name in _NAMES})


_COUNTS = (
    "tensor_parallel",
    "context_parallel",
    "pipeline_parallel",
    "interleave",
    "data_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "zero_stage",
    "microbatch",
)
_COMMON = ("framework", "offload_optimizer", "offload_activations_frac")
_NAMES = ("schedules", "axis_orders", "policies", *_COMMON)
_COLUMNS = tuple(field.name for field in fields(Plans) if field.name not in _NAMES)


def joined(batches: Sequence[Plans]) -> Plans:
    """One table of several whose schedules and axis orders have the same names."""
    first = batches[0]
    stacked: dict[str, Any] = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in _COLUMNS}
    return Plans(**stacked, **{name: getattr(first, name) for name in _NAMES})


def are_ties_apart(plans: Plans) -> BoolArray:
    """Whether tied weights and their owner are on different stages: first and last chunk are on different devices."""
    first, shape_of = distinct(plans.pipeline_parallel, plans.interleave, plans.schedule)
    ends = [plans.plan(int(row)).chunk_stages for row in first]
    return np.array([set(chunks[0]) != set(chunks[-1]) for chunks in ends])[shape_of]


def columns_of(plans: Sequence[Plan]) -> Plans:
    """`plans` as columns. How layers lie on stages is not in them, and of recompute the first stage's."""
    schedules = tuple(sorted({plan.schedule for plan in plans}))
    orders = tuple(sorted({plan.axis_order for plan in plans}))
    first: dict[str, Any] = {name: getattr(plans[0], name) for name in _COMMON}
    for plan in plans:
        assert all(getattr(plan, name) == value for name, value in first.items()), plan
    counts: dict[str, Any] = {name: np.array([getattr(p, name) for p in plans], dtype=np.int64) for name in _COUNTS}
    policies, names = policies_of(plans), dispatchers.names()
    return Plans(
        **counts,
        sequence_parallel=np.array([plan.sequence_parallel for plan in plans]),
        dispatcher=np.array([names.index(plan.dispatcher) for plan in plans], dtype=np.int64),
        context_comm_type=np.array([CONTEXT_COMM_TYPES.index(plan.context_comm_type) for plan in plans]),
        recompute=np.array([policies.index(plan.recompute[0]) for plan in plans]),
        schedule=np.array([schedules.index(plan.schedule) for plan in plans]),
        axis_order=np.array([orders.index(plan.axis_order) for plan in plans]),
        overlap=np.array([[getattr(plan.overlap, name) for name in OVERLAPS] for plan in plans]),
        schedules=schedules,
        axis_orders=orders,
        policies=policies,
        **first,
    )
