"""How plans cut a model: what one device of each stage computes, holds and updates. Everything else follows from it.

`shard` cuts one plan and `shard_plans` many, in columns; one plan is a table of one row. Memory (`plan.memory`), FLOP,
the step and its energy (`schedule.step`) and goodput (`plan.checkpoint`) are all derived from the value that these
return. Plans that divide a model alike share a cut: what they compute and hold is worked out by cut, never by plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np

from dovetail.columns import check_rows, distinct
from dovetail.parallel.layout import LayerSpan, StageGroup, runs_of
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Plan, Plans, are_ties_apart, columns_of
from dovetail.units import Amount
from dovetail.workload.graph import Axis, B, Block, BoolArray, FloatArray, Graph, IntArray, N, Ops, Phase
from dovetail.workload.matrices import are_matrices, matrix_shapes
from dovetail.workload.operators import Unit, dtype_bytes
from dovetail.workload.optimizers import Optimizer
from dovetail.workload.training import policy_rows, with_recompute

_CUT_BY = (
    "tensor_parallel",
    "sequence_parallel",
    "context_parallel",
    "context_comm_type",
    "expert_parallel",
    "expert_tensor_parallel",
    "microbatch",
)
_TOLERANCE = 1e-12  # what a product of floats may be too large by, so that a whole number of rows stays one
_CUT_COLUMNS = {
    "extents": "splits",
    "weight_elements": "weight_split",
    "gradient_elements": "gradient_split",
    "bias_elements": "bias_split",
}
_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)
GRADIENTS = (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
Owned = tuple[Amount, Amount]  # ordinary, of experts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Distinct cuts, and which of them each plan makes.

    `degrees` says by how much each axis divides what it may divide. Optimizer state, which depends on the
    data-parallel degree too, is left whole here: its axes divide by 1.
    """

    of_plan: IntArray
    first_plan: IntArray  # of each cut: a plan that makes it
    degrees: dict[Axis, IntArray]
    loads: FloatArray  # of each cut: rows routed to the most loaded device, against the mean

    def __post_init__(self) -> None:
        check_rows({"first_plan": self.first_plan, "loads": self.loads, **{str(a): d for a, d in self.degrees.items()}})

    def __len__(self) -> int:
        return len(self.first_plan)


def cuts_of(plans: Plans, graph: Graph) -> Cuts:
    """The cuts that `plans` make of `graph`: what devices compute and send in one microbatch differs only by them."""
    first, of_plan = distinct(*(getattr(plans, name) for name in _CUT_BY))
    whole = np.ones(len(first), dtype=np.int64)
    cut = plans.at(first)
    degrees = degrees_of(cut, graph) | {Axis.STATE: whole, Axis.EXPERT_STATE: whole}
    return Cuts(of_plan=of_plan, first_plan=first, degrees=degrees, loads=loads_of(cut, graph))


def degrees_of(plans: Plans, graph: Graph) -> dict[Axis, IntArray]:
    """How far each axis divides what it may divide in each of `plans`, microbatches included in DATA."""
    tp, cp = plans.tensor_parallel, plans.context_parallel
    is_ring, is_dealt = (plans.context_comm_type == CONTEXT_COMM_TYPES.index(name) for name in ("ring", "all-to-all"))
    num_parts = graph.batch // plans.microbatch  # replicas times microbatches
    experts = plans.expert_parallel * plans.expert_tensor_parallel
    shards_state = plans.zero_stage >= 1
    return {
        Axis.DATA: num_parts,
        Axis.CONTEXT: cp,
        Axis.TENSOR: tp,
        Axis.SEQUENCE: np.where(plans.sequence_parallel, tp, 1),
        Axis.KV: np.minimum(tp, graph.num_kv_heads),
        Axis.EXPERT: plans.expert_parallel,
        Axis.EXPERT_TENSOR: plans.expert_tensor_parallel,
        Axis.EXPERT_DATA: tp * cp * num_parts // experts,
        Axis.STATE: np.where(shards_state, plans.data_parallel * cp, 1),
        Axis.EXPERT_STATE: np.where(shards_state, plans.expert_data_parallel, 1),
        Axis.QUERIES: np.where(is_dealt, 1, cp),
        Axis.HEADS: np.where(is_dealt, cp, 1),
        Axis.HOPS: np.where(is_ring, cp, 1),
    }


def loads_of(plans: Plans, graph: Graph) -> FloatArray:
    """Rows routed to the most loaded device of each of `plans`, against the mean."""
    return np.asarray(graph.routing.most(plans.expert_parallel), dtype=np.float64)


def divisors(split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """By how much the axes in each of `split` divide: cuts by the shape of `split`."""
    occurs = np.zeros(2 * int(max(Axis)), dtype=bool)
    occurs[split] = True
    codes, place = np.flatnonzero(occurs), np.cumsum(occurs) - 1
    factors = np.ones((len(degrees[Axis.DATA]), len(codes)), dtype=np.int64)
    for axis, degree in degrees.items():
        here = (codes & int(axis)) != 0
        factors[:, here] *= degree[:, None]
    return factors[:, place[split]]


def local_elements(elements: IntArray, split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """A device's share of each extent under each cut, rounded up: what does not divide is padded (vocabularies)."""
    return -(-elements // divisors(split, degrees))


def most_loaded_elements(
    whole: IntArray, split: IntArray, degrees: dict[Axis, IntArray], loads: FloatArray
) -> IntArray:
    """As `local_elements`, of the device to whose experts most is routed."""
    local = local_elements(whole, split, degrees)
    if np.any(loads != 1.0):
        is_routed = (split & int(Axis.ROUTED)) != 0
        share = loads[:, None] / divisors(split[is_routed], degrees)
        local[:, is_routed] = np.ceil(whole[is_routed] * share * (1.0 - _TOLERANCE))
    return local


def local_ops(ops: Ops, degrees: dict[Axis, IntArray], loads: FloatArray) -> Ops:
    """`ops` as each cut leaves them to the most loaded device, one cut after the other, without edges."""
    num_cuts, num_rows = len(degrees[Axis.DATA]), len(ops)
    whole, split = (
        np.concatenate([getattr(ops, name).reshape(num_rows, -1) for name in names], axis=1)
        for names in (_CUT_COLUMNS, _CUT_COLUMNS.values())
    )
    local = most_loaded_elements(whole, split, degrees, loads).reshape(num_cuts * num_rows, -1)
    extents, *others = np.split(local, range(ops.extents.shape[1], local.shape[1]), axis=1)
    repeated = ops.taken(np.tile(np.arange(num_rows), num_cuts))
    is_turned = (ops.phase == Phase.UPDATE) & (ops.unit == Unit.TENSOR)
    if np.any(is_turned):
        repeated = _taking_turns(repeated, ops, np.flatnonzero(is_turned), extents, degrees)
    weights, gradients, biases = (column[:, 0] for column in others)
    return replace(
        repeated, extents=extents, weight_elements=weights, gradient_elements=gradients, bias_elements=biases
    )


def _taking_turns(repeated: Ops, ops: Ops, rows: IntArray, extents: IntArray, degrees: dict[Axis, IntArray]) -> Ops:
    """With products of the update as often as they run: ranks that share the state of matrices take turns with these.

    A rank has its turn with one layer's matrix in as many layers as there are ranks, not with a part of every one.
    """
    num_cuts = len(degrees[Axis.DATA])
    shared = ops.extents[rows, B] / divisors(ops.splits[rows, B], degrees)
    turns = np.ones((num_cuts, len(ops)))
    turns[:, rows] = shared / extents.reshape(num_cuts, len(ops), -1)[:, rows, B]
    return replace(repeated, work_frac=repeated.work_frac * turns.ravel())


def forward_ops(block: Block) -> Ops:
    """The rows that memory goes by: what is kept is made by them, and parameters are theirs."""
    return block.ops.taken(np.flatnonzero(block.ops.phase == Phase.FORWARD))


def joined_ops(parts: Sequence[Ops]) -> Ops:
    """The rows of all of `parts`, one after the other, without edges."""
    names = tuple(chain.from_iterable(part.names for part in parts))
    no_edges = np.zeros(len(names) + 1, dtype=np.int64)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Ops)
        if field.name not in ("names", "edge_start", "edge_to")
    }
    return Ops(names=names, edge_start=no_edges, edge_to=no_edges[:0], **columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Which operators of a block are summed to what: matrices of 0 and 1, operators by what they are summed to."""

    kinds: FloatArray  # to ways by all and the core alone by policies
    shares: FloatArray  # to ways by recompute and weight gradients by policies
    ways: FloatArray  # to ways by policies
    has_rerun: BoolArray  # policies under which the host runs operators again one by one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRows:
    """Operators of one block for all policies, and where they stand among those of all blocks."""

    ops: Ops
    runs: BoolArray  # which of them run, policies by rows
    sums: Sums
    start: int

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + len(self.ops))


def block_rows(blocks: Sequence[Ops]) -> tuple[BlockRows, ...]:
    wide = [_policy_rows(ops) for ops in blocks]
    starts = np.cumsum([0, *(len(ops) for ops, _, _ in wide)]).tolist()
    return tuple(
        BlockRows(ops=ops, runs=runs, sums=sums, start=start)
        for (ops, runs, sums), start in zip(wide, starts[:-1], strict=True)
    )


@lru_cache(maxsize=64)
def _policy_rows(ops: Ops) -> tuple[Ops, BoolArray, Sums]:
    wide, runs = policy_rows(ops, RECOMPUTE_POLICIES)
    return wide, runs, _sums(wide, runs)


def _sums(ops: Ops, runs: BoolArray) -> Sums:
    again = (ops.phase == Phase.RECOMPUTE) & runs
    forward = np.broadcast_to(ops.phase == Phase.FORWARD, again.shape)
    backward = ((ops.phase == Phase.INPUT_GRAD) | (ops.phase == Phase.WEIGHT_GRAD)) | again
    ways = np.stack([forward, backward])

    def matrix(chosen: BoolArray) -> FloatArray:
        return chosen.reshape(-1, len(ops)).T.astype(np.float64)

    return Sums(
        kinds=matrix(np.stack([ways, ways & ops.is_core], axis=1)),
        shares=matrix(np.stack([ways & again, ways & (ops.phase == Phase.WEIGHT_GRAD)], axis=1)),
        ways=matrix(ways),
        has_rerun=np.any(again & ~ops.is_fused, axis=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockElements:
    """Counts by cut, ordinary parameters apart from those of experts; tied ones are among the ordinary."""

    plain: Amount
    experts: Amount
    plain_gradients: Amount
    expert_gradients: Amount
    plain_sparse: Amount  # gradients of tables of which only looked-up rows have one
    expert_sparse: Amount
    tied: Amount  # parameters that an earlier block owns
    # what an optimizer that updates matrices in a way of their own keeps and sends of them; 0 for others
    plain_matrices: Amount = 0.0
    expert_matrices: Amount = 0.0
    plain_factors: Amount = 0.0  # rows and columns of those matrices
    expert_factors: Amount = 0.0
    plain_gathered: Amount = 0.0  # elements of those that tensor parallelism splits, with the parts of all its ranks
    expert_gathered: Amount = 0.0
    tied_matrices: Amount = 0.0
    tied_factors: Amount = 0.0
    workspace: Amount = 0.0  # operands and result of the largest product of an update

    @property
    def matrices(self) -> tuple[Amount, Amount]:
        """Those of `parameters` that are matrices with an update of their own."""
        return self.plain_matrices, self.expert_matrices

    @property
    def factors(self) -> tuple[Amount, Amount]:
        return self.plain_factors, self.expert_factors

    @property
    def gathered(self) -> tuple[Amount, Amount]:
        return self.plain_gathered, self.expert_gathered

    @property
    def parameters(self) -> tuple[Amount, Amount]:
        """Ordinary ones, and those of experts."""
        return self.plain, self.experts

    @property
    def gradients(self) -> tuple[Amount, Amount]:
        """As `parameters`; of bags of embeddings only rows looked up."""
        return self.plain_gradients, self.expert_gradients

    @property
    def sparse(self) -> tuple[Amount, Amount]:
        """Those of `gradients` that belong to tables of which only looked-up rows have one."""
        return self.plain_sparse, self.expert_sparse

    def at(self, cut: int | IntArray) -> BlockElements:
        """Under one cut, or under as many as there are plans; what is the same for all cuts stays one number."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: c if np.ndim(c) == 0 else c[cut] for name, c in columns.items()})

    def slim(self) -> BlockElements:
        """With one zero for columns of them: most blocks have no experts, nothing tied and nothing sparse."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: column if np.any(column) else 0.0 for name, column in columns.items()})


def block_elements(ops: Ops, cuts: Cuts) -> BlockElements:
    """Of one repeat of a block of `ops`."""
    held = np.flatnonzero((ops.weight_elements > 0) | (ops.gradient_elements > 0) | (ops.bias_elements > 0))
    splits = [split[held] for split in (ops.weight_split, ops.gradient_split, ops.bias_split)]
    wholes = [whole[held] for whole in (ops.weight_elements, ops.gradient_elements, ops.bias_elements)]
    weights, gradients, biases = (
        most_loaded_elements(whole, split, cuts.degrees, cuts.loads).astype(np.float64)
        for whole, split in zip(wholes, splits, strict=True)
    )
    of_expert, of_expert_gradient, of_expert_bias = ((split & _EXPERT_AXES) != 0 for split in splits)
    sparse = np.where(gradients < weights, gradients, 0.0)
    plain_bias, expert_bias = biases[:, ~of_expert_bias].sum(axis=1), biases[:, of_expert_bias].sum(axis=1)
    return BlockElements(
        plain=weights[:, ~of_expert].sum(axis=1) + plain_bias,
        experts=weights[:, of_expert].sum(axis=1) + expert_bias,
        plain_gradients=gradients[:, ~of_expert_gradient].sum(axis=1) + plain_bias,
        expert_gradients=gradients[:, of_expert_gradient].sum(axis=1) + expert_bias,
        plain_sparse=sparse[:, ~of_expert_gradient].sum(axis=1),
        expert_sparse=sparse[:, of_expert_gradient].sum(axis=1),
        tied=weights[:, ops.is_tied[held]].sum(axis=1),
    )


def with_matrices(elements: BlockElements, block: Block, cuts: Cuts, optimizer: Optimizer) -> BlockElements:
    """`elements` of one repeat of `block`, with the matrices that `optimizer` updates in a way of their own."""
    elements = replace(elements, workspace=_update_workspace(block.ops))
    is_matrix = are_matrices(block.ops, optimizer, is_layer=block.is_layer)
    if not is_matrix.any():
        return elements
    ops = block.ops.taken(np.flatnonzero(is_matrix))
    local = local_ops(ops, cuts.degrees, cuts.loads)
    weights, num, rows, cols = (
        column.reshape(len(cuts), -1).astype(np.float64) for column in (local.weight_elements, *matrix_shapes(local))
    )
    factors = num * (rows + cols)
    _, whole_rows, whole_cols = matrix_shapes(ops)
    whole = num * whole_rows * whole_cols
    gathered = np.where(weights < whole, whole, 0.0)
    experts = (ops.weight_split & _EXPERT_AXES) != 0
    return replace(
        elements,
        plain_matrices=weights[:, ~experts].sum(axis=1),
        expert_matrices=weights[:, experts].sum(axis=1),
        plain_factors=factors[:, ~experts].sum(axis=1),
        expert_factors=factors[:, experts].sum(axis=1),
        plain_gathered=gathered[:, ~experts].sum(axis=1),
        expert_gathered=gathered[:, experts].sum(axis=1),
        tied_matrices=weights[:, ops.is_tied].sum(axis=1),
        tied_factors=factors[:, ops.is_tied].sum(axis=1),
    )


def _update_workspace(ops: Ops) -> float:
    """Elements of the operands and the result of the largest product of an update, which no plan divides."""
    rows = np.flatnonzero((ops.phase == Phase.UPDATE) & (ops.unit == Unit.TENSOR))
    _, m, n, k, _ = ops.extents[rows].astype(np.float64).T
    return float(np.max(m * k + k * n + m * n, initial=0.0))


def is_owner_here(are_layers: Sequence[bool]) -> bool:
    """Whether what tied weights are tied to is on their stage too, of whose blocks `are_layers` tells the kind.

    A stage that holds both ends of a model, the embedding and the head: a pipeline's only one, the first of ZB-V, the
    first and the last of DualPipe.
    """
    return sum(not is_layer for is_layer in are_layers) > 1


def tied_parameters(block: BlockElements) -> Amount:
    return block.tied


def held_elements(
    pieces: Sequence[tuple[Amount, BlockElements]],
    of_block: Callable[[BlockElements], Owned],
    *,
    has_owner: bool,
    tied: Callable[[BlockElements], Amount] = tied_parameters,
) -> Owned:
    """What `of_block` counts, over as many of each block as a stage holds; tied ones not where it has their owner."""
    plain: Amount = 0.0
    experts: Amount = 0.0
    for count, block in pieces:
        block_plain, block_experts = of_block(block)
        held_twice = np.where(block_plain > 0, tied(block), 0.0) if has_owner else 0.0
        plain = plain + count * (block_plain - held_twice)
        experts = experts + count * block_experts
    return plain, experts


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedPlans:
    """Plans as columns, and what they leave one device of a model: its operators, parameters and updates.

    What is asked of it is worked out when it is first asked for, by distinct cut or by distinct update.
    """

    graph: Graph
    plans: Plans
    cuts: Cuts

    def at(self, rows: IntArray) -> ShardedPlans:
        """Some of the plans, in the order given; what was worked out by cut stays."""
        cuts = replace(self.cuts, of_plan=self.cuts.of_plan[rows])
        some = ShardedPlans(graph=self.graph, plans=self.plans.at(rows), cuts=cuts)
        some.__dict__.update({name: self.__dict__[name] for name in _BY_CUT if name in self.__dict__})
        return some

    @property
    def num_microbatches(self) -> IntArray:
        """Microbatches that a pipeline works through in one step, by plan."""
        return self.graph.batch // (self.plans.data_parallel * self.plans.microbatch)

    @cached_property
    def boundary_activation_bytes(self) -> FloatArray:
        """One microbatch's activations between two stages, a device's share, by cut."""
        layers = [block for block in self.graph.blocks if block.is_layer]
        carried, split = (
            np.array([int(getattr(b, n)) for b in layers])
            for n in ("boundary_activation_elements", "boundary_activation_split")
        )
        elements = local_elements(carried, split, self.cuts.degrees).max(axis=1)
        return np.asarray(elements * dtype_bytes(self.graph.dtype), dtype=np.float64)

    @cached_property
    def blocks(self) -> tuple[BlockRows, ...]:
        """The operators of each block, those of all recompute policies in one."""
        return block_rows([block.ops for block in self.graph.blocks])

    @cached_property
    def local(self) -> Ops:
        """`blocks` one after the other as a device has them under each cut, cut after cut."""
        return local_ops(joined_ops([block.ops for block in self.blocks]), self.cuts.degrees, self.cuts.loads)

    @cached_property
    def forward(self) -> tuple[tuple[Ops, Ops], ...]:
        """The forward operators of each block, whole and as a device has them under each cut: what memory goes by."""
        whole = (forward_ops(block) for block in self.graph.blocks)
        return tuple((ops, local_ops(ops, self.cuts.degrees, self.cuts.loads)) for ops in whole)

    @cached_property
    def elements(self) -> tuple[BlockElements, ...]:
        """Parameters and gradients that a device has of one repeat of each block, by cut."""
        return tuple(block_elements(block.ops, self.cuts) for block in self.graph.blocks)

    def updated_elements(self, optimizer: Optimizer) -> tuple[BlockElements, ...]:
        """As `elements`, with those of the matrices that `optimizer` updates in a way of their own."""
        if optimizer not in self._by_optimizer:
            blocks = zip(self.elements, self.graph.blocks, strict=True)
            made = tuple(with_matrices(elements, block, self.cuts, optimizer) for elements, block in blocks)
            self._by_optimizer[optimizer] = made
        return self._by_optimizer[optimizer]

    @cached_property
    def _by_optimizer(self) -> dict[Optimizer, tuple[BlockElements, ...]]:
        return {}

    @cached_property
    def are_ties_apart(self) -> BoolArray:
        """Whether tied weights and their owner are on different stages, by plan."""
        return are_ties_apart(self.plans)

    @cached_property
    def _updates(self) -> tuple[IntArray, IntArray]:
        """A plan with each of the distinct updates, and which of these each plan has.

        Of tables, as many rows are updated as a microbatch looks up, so the cut is part of what an update depends on.
        """
        return distinct(self.cuts.of_plan, self.plans.data_parallel, self.plans.zero_stage >= 1, self.are_ties_apart)

    @property
    def update_variant_of(self) -> IntArray:
        """Which of the distinct updates each plan has."""
        return self._updates[1]

    @property
    def num_update_variants(self) -> int:
        return len(self._updates[0])

    @property
    def are_update_variants_apart(self) -> BoolArray:
        """As `are_ties_apart`, by distinct update."""
        return self.are_ties_apart[self._updates[0]]

    @cached_property
    def updates(self) -> tuple[Ops, ...]:
        """The update of one repeat of each block."""
        return tuple(block.ops.taken(np.flatnonzero(block.ops.phase == Phase.UPDATE)) for block in self.graph.blocks)

    @cached_property
    def local_updates(self) -> Ops:
        """`updates` one after the other as a device has them, one distinct update after the other."""
        some = self.plans.at(self._updates[0])
        return local_ops(joined_ops(self.updates), degrees_of(some, self.graph), loads_of(some, self.graph))

    @property
    def costed_ops(self) -> Ops:
        """All operators whose costs make up a step: those of a microbatch and those of the update."""
        return joined_ops((self.local, self.local_updates))


# of ShardedPlans: whatever plans make these cuts
_BY_CUT = ("boundary_activation_bytes", "blocks", "local", "forward", "elements", "_by_optimizer")


def shard_plans(graph: Graph, plans: Plans) -> ShardedPlans:
    """`graph` cut by each of `plans`, which must have passed `check_plan`."""
    return ShardedPlans(graph=graph, plans=plans, cuts=cuts_of(plans, graph))


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedPlan:
    """One plan: a table of one row, and how its layers lie on the stages."""

    plan: Plan
    table: ShardedPlans
    runs: tuple[StageGroup, ...]
    _blocks: dict[tuple[int, int], Block] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.table.graph

    @property
    def num_stages(self) -> int:
        return self.plan.pipeline_parallel

    @property
    def num_microbatches(self) -> int:
        return int(self.table.num_microbatches[0])

    def spans(self, stage: int) -> tuple[LayerSpan, ...]:
        """What `stage` holds, in the order of the model."""
        return next(run.spans for run in self.runs if stage < run.first_stage + run.num_stages)

    def held(self, stage: int) -> tuple[tuple[LayerSpan, Block], ...]:
        """What `stage` holds, each with the operators that one device runs of one repeat."""
        return tuple((span, self.block(span)) for span in self.spans(stage))

    def block(self, span: LayerSpan) -> Block:
        """One device's share of one repeat of a block, with the edges among its operators: those that a policy runs.

        Attention is over all parts of the keys that come round. Tied weights are updated twice only where their owner
        and their user are on different stages. The same block and policy give the same value.
        """
        key = span.block, span.policy
        if key not in self._blocks:
            whole, table = self.graph.blocks[span.block], self.table
            degrees = degrees_of(table.plans, table.graph) | {Axis.HOPS: np.ones(1, dtype=np.int64)}
            local = local_ops(whole.ops, degrees, table.cuts.loads)
            ops = replace(local, edge_start=whole.ops.edge_start, edge_to=whole.ops.edge_to)
            ops = with_recompute(ops, RECOMPUTE_POLICIES[span.policy])
            if not table.are_ties_apart[0]:
                ops = ops.where(~((ops.phase == Phase.UPDATE) & ops.is_tied))
            [carried] = local_elements(
                np.array(whole.boundary_activation_elements), np.array(whole.boundary_activation_split), degrees
            )
            self._blocks[key] = replace(whole, ops=ops, boundary_activation_elements=int(carried))
        return self._blocks[key]


def shard(graph: Graph, plan: Plan) -> ShardedPlan:
    """One microbatch of `graph` cut by `plan`, which must have passed `check_plan`.

    The shares of all devices over all microbatches make up the whole; rows that an axis does not divide are
    computed by every device of that axis, as they are in reality.
    """
    return ShardedPlan(plan=plan, table=shard_plans(graph, columns_of([plan])), runs=runs_of(graph, plan))


def computed_flop(graph: Graph) -> float:
    """The model's FLOP in a step, less those of rows that experts have no room for."""
    found = 0.0
    for block in graph.blocks:
        is_routed = np.any(block.ops.splits & int(Axis.ROUTED), axis=1)
        kept = np.where(is_routed, graph.routing.kept_frac, 1.0)
        found += block.repeat * float((kept * block.ops.model_flop).sum())
    return found


def executed_flop(sharded: ShardedPlan) -> float:
    """FLOP that the tensor units of all devices do in a step: recompute and repeated work in, masked scores out.

    Microbatches are shared out among the copies of a chunk; the update is each holder's own, and once a step.
    """
    table, plan = sharded.table, sharded.plan
    num_replicas = plan.num_devices / plan.pipeline_parallel
    mean_frac = table.graph.routing.mean / float(table.cuts.loads[0])  # of the most loaded device's rows, a mean one's
    pass_flop = _tensor_flop(table.local, mean_frac, int(table.cuts.degrees[Axis.HOPS][0]))
    update_flop = _tensor_flop(table.local_updates, mean_frac, 1)
    ends = np.cumsum([len(ops) for ops in table.updates])
    per_microbatch = once = 0.0
    for run in sharded.runs:
        for span in run.spans:
            rows, updates, end = table.blocks[span.block], table.updates[span.block], ends[span.block]
            does_run = rows.runs[span.policy] & (rows.ops.phase != Phase.UPDATE)
            is_updated = ~updates.is_tied | table.are_ties_apart[0]
            num_repeats = run.num_stages * span.count
            per_microbatch += num_repeats * float(pass_flop[rows.place][does_run].sum())
            once += num_repeats * float(update_flop[end - len(updates) : end][is_updated].sum())
    return num_replicas * (sharded.num_microbatches / plan.num_copies * per_microbatch + once)


def _tensor_flop(ops: Ops, mean_frac: float, num_hops: int) -> FloatArray:
    """FLOP of each operator on the tensor units of a device whose experts get the mean, attention over all parts."""
    is_routed = np.any(ops.splits & int(Axis.ROUTED), axis=1)
    is_parted = (ops.splits[:, N] & int(Axis.HOPS)) != 0
    flop = np.where(is_routed, mean_frac, 1.0) * ops.flop * np.where(is_parted, num_hops, 1)
    return np.where(ops.unit == Unit.TENSOR, flop, 0.0)
