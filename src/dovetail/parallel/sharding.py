"""A model sharded by plans: the operators, parameters and updates of one device of each stage.

`shard` takes one plan and `shard_plans` many, in columns; one plan is a table of one row. Memory (`parallel.memory`),
FLOP, the step and its energy (`step.step`) and goodput (`parallel.checkpoint`) all follow from the value they return.
Plans with equal degrees and microbatch share a cut: operators and parameters are computed per cut, never per plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import chain

import numpy as np

from dovetail.columns import check_rows, distinct
from dovetail.parallel.layout import LayerSpan, StageGroup, runs_of
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, Plan, Plans, are_ties_apart, columns_of
from dovetail.units import Amount
from dovetail.workload.graph import Axis, B, Block, BoolArray, FloatArray, Graph, IntArray, N, Ops, Phase
from dovetail.workload.matrices import are_matrices, matrix_shapes
from dovetail.workload.operators import Unit, code_of, dtype_bytes
from dovetail.workload.optimizers import Optimizer
from dovetail.workload.routing import expected_imbalance
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
_NUM_SPLITS = 2 * int(max(Axis))  # sets of axes
_EXPERT_AXES = int(Axis.EXPERT | Axis.EXPERT_TENSOR)
GRADIENTS = (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
Owned = tuple[Amount, Amount]  # ordinary, of experts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Distinct cuts of a model, and which of them each plan has.

    `degrees` gives by axis the number of shards. Optimizer state, which depends on the data-parallel degree too, is
    left whole here: its axes have degree 1.
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
    """The distinct cuts of `graph` by `plans`: plans with one cut compute and send the same in a microbatch."""
    first, of_plan = distinct(*(getattr(plans, name) for name in _CUT_BY))
    ones = np.ones(len(first), dtype=np.int64)
    cut = plans.at(first)
    degrees = degrees_of(cut, graph) | {Axis.STATE: ones, Axis.EXPERT_STATE: ones}
    return Cuts(of_plan=of_plan, first_plan=first, degrees=degrees, loads=loads_of(cut, graph))


def degrees_of(plans: Plans, graph: Graph) -> dict[Axis, IntArray]:
    """The number of shards along each axis for each of `plans`; DATA includes microbatches."""
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
    random: Amount = 1.0
    if graph.routing.is_random and graph.choice is not None:
        num_tokens = plans.microbatch * graph.tokens_per_sample * plans.expert_parallel // plans.context_parallel
        shared = np.where(plans.sequence_parallel, plans.tensor_parallel, 1)
        each = zip((num_tokens // shared).tolist(), plans.expert_parallel.tolist(), strict=True)
        random = np.array([expected_imbalance(graph.choice, max(1, tokens), ranks) for tokens, ranks in each])
    return np.asarray(graph.routing.most(plans.expert_parallel, random), dtype=np.float64)


def divisors(split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """The number of shards that each set of axes in `split` makes: cuts by the shape of `split`."""
    occurs = np.zeros(_NUM_SPLITS, dtype=bool)
    occurs[split] = True
    codes = occurs.nonzero()[0]
    place = np.empty(_NUM_SPLITS, dtype=np.intp)  # read where a set occurs, and nowhere else
    place[codes] = np.arange(len(codes))
    factors = np.ones((len(degrees[Axis.DATA]), len(codes)), dtype=np.int64)
    dividing = int(np.bitwise_or.reduce(codes))
    for axis, degree in degrees.items():
        if dividing & (bit := int(axis)):
            factors[:, (codes & bit) != 0] *= degree[:, None]
    return factors[:, place[split]]


def local_elements(elements: IntArray, split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """A device's share of each extent under each cut, rounded up: what does not divide is padded (vocabularies)."""
    return -(-elements // divisors(split, degrees))


def most_loaded_elements(
    elements: IntArray, split: IntArray, degrees: dict[Axis, IntArray], loads: FloatArray
) -> IntArray:
    """As `local_elements`, for the device whose experts get the most tokens."""
    local = local_elements(elements, split, degrees)
    if np.any(loads != 1.0):
        is_routed = (split & int(Axis.ROUTED)) != 0
        share = loads[:, None] / divisors(split[is_routed], degrees)
        local[:, is_routed] = np.ceil(elements[is_routed] * share * (1.0 - _TOLERANCE))
    return local


def local_ops(ops: Ops, degrees: dict[Axis, IntArray], loads: FloatArray) -> Ops:
    """`ops` as the most loaded device runs them under each cut, one cut after the other, without edges."""
    num_cuts, num_rows = len(degrees[Axis.DATA]), len(ops)
    if not num_rows:  # an evaluation step updates nothing
        return ops
    elements, split = (
        np.concatenate([getattr(ops, name).reshape(num_rows, -1) for name in names], axis=1)
        for names in (_CUT_COLUMNS, _CUT_COLUMNS.values())
    )
    local = most_loaded_elements(elements, split, degrees, loads).reshape(num_cuts * num_rows, -1)
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
    """With the matrix products of the update as often as they run: ranks that shard optimizer state take turns.

    A rank updates the whole matrix of one layer in as many layers as there are ranks, not a part of every matrix.
    """
    num_cuts = len(degrees[Axis.DATA])
    num_matrices = ops.extents[rows, B] / divisors(ops.splits[rows, B], degrees)
    turns = np.ones((num_cuts, len(ops)))
    turns[:, rows] = num_matrices / extents.reshape(num_cuts, len(ops), -1)[:, rows, B]
    return replace(repeated, work_frac=repeated.work_frac * turns.ravel())


def forward_ops(block: Block) -> Ops:
    """The forward operators, which memory is counted from: they make the saved activations and own the parameters."""
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
    """Matrices of 0 and 1 that sum the operators of a block, operators by sums."""

    kinds: FloatArray  # to directions by all and the attention core alone by policies
    recompute: FloatArray  # to directions by policies
    weights: FloatArray  # weight gradients, to directions by policies
    directions: FloatArray  # to directions by policies
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


def block_rows(blocks: Sequence[Ops], policies: tuple[str, ...]) -> tuple[BlockRows, ...]:
    wide = [_policy_rows(ops, policies) for ops in blocks]
    starts = np.cumsum([0, *(len(ops) for ops, _, _ in wide)]).tolist()
    return tuple(
        BlockRows(ops=ops, runs=runs, sums=sums, start=start)
        for (ops, runs, sums), start in zip(wide, starts[:-1], strict=True)
    )


@lru_cache(maxsize=64)
def _policy_rows(ops: Ops, policies: tuple[str, ...]) -> tuple[Ops, BoolArray, Sums]:
    wide, runs = policy_rows(ops, policies)
    return wide, runs, _sums(wide, runs)


def _sums(ops: Ops, runs: BoolArray) -> Sums:
    again = (ops.phase == Phase.RECOMPUTE) & runs
    forward = np.broadcast_to(ops.phase == Phase.FORWARD, again.shape)
    backward = ((ops.phase == Phase.INPUT_GRAD) | (ops.phase == Phase.WEIGHT_GRAD)) | again
    directions = np.stack([forward, backward])

    def matrix(chosen: BoolArray) -> FloatArray:
        return chosen.reshape(-1, len(ops)).T.astype(np.float64)

    return Sums(
        kinds=matrix(np.stack([directions, directions & ops.is_core], axis=1)),
        recompute=matrix(directions & again),
        weights=matrix(directions & (ops.phase == Phase.WEIGHT_GRAD)),
        directions=matrix(directions),
        has_rerun=np.any(again & ~ops.is_fused, axis=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockElements:
    """Element counts by cut, dense parameters apart from those of experts; tied ones are among the dense."""

    plain: Amount
    experts: Amount
    plain_gradients: Amount
    expert_gradients: Amount
    plain_sparse: Amount  # gradients of tables of which only looked-up rows have one
    expert_sparse: Amount
    tied: Amount  # parameters that an earlier block owns
    plain_frozen: Amount = 0.0  # parameters that are not trained
    expert_frozen: Amount = 0.0
    tied_frozen: Amount = 0.0
    # of matrices that an optimizer such as Muon updates as matrices; 0 for other optimizers
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
    def trained(self) -> tuple[Amount, Amount]:
        """Those of `parameters` that are not frozen: what an optimizer keeps state for."""
        return self.plain - self.plain_frozen, self.experts - self.expert_frozen

    @property
    def gradients(self) -> tuple[Amount, Amount]:
        """As `parameters`; of bags of embeddings only rows looked up."""
        return self.plain_gradients, self.expert_gradients

    @property
    def sparse(self) -> tuple[Amount, Amount]:
        """Those of `gradients` that belong to tables of which only looked-up rows have one."""
        return self.plain_sparse, self.expert_sparse

    def at(self, cut: int | IntArray) -> BlockElements:
        """The counts under `cut`, one or many; what is the same for all cuts stays one number."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: c if np.ndim(c) == 0 else c[cut] for name, c in columns.items()})

    def slim(self) -> BlockElements:
        """With 0.0 in place of columns of zeros: most blocks have no experts, nothing tied and nothing sparse."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return BlockElements(**{name: column if np.any(column) else 0.0 for name, column in columns.items()})


def block_elements(ops: Ops, cuts: Cuts) -> BlockElements:
    """Of one repeat of a block of `ops`."""
    held = np.flatnonzero((ops.weight_elements > 0) | (ops.gradient_elements > 0) | (ops.bias_elements > 0))
    splits = [split[held] for split in (ops.weight_split, ops.gradient_split, ops.bias_split)]
    totals = [elements[held] for elements in (ops.weight_elements, ops.gradient_elements, ops.bias_elements)]
    weights, gradients, biases = (
        most_loaded_elements(elements, split, cuts.degrees, cuts.loads).astype(np.float64)
        for elements, split in zip(totals, splits, strict=True)
    )
    of_expert, of_expert_gradient, of_expert_bias = ((split & _EXPERT_AXES) != 0 for split in splits)
    is_table = (ops.kind[held] == code_of("embedding_bag")) & (ops.gradient_elements[held] > 0)
    sparse = np.where(is_table & (gradients < weights), gradients, 0.0)
    frozen = np.where(is_table, 0.0, weights - gradients)
    plain_bias, expert_bias = biases[:, ~of_expert_bias].sum(axis=1), biases[:, of_expert_bias].sum(axis=1)
    return BlockElements(
        plain=weights[:, ~of_expert].sum(axis=1) + plain_bias,
        experts=weights[:, of_expert].sum(axis=1) + expert_bias,
        plain_gradients=gradients[:, ~of_expert_gradient].sum(axis=1) + plain_bias,
        expert_gradients=gradients[:, of_expert_gradient].sum(axis=1) + expert_bias,
        plain_sparse=sparse[:, ~of_expert_gradient].sum(axis=1),
        expert_sparse=sparse[:, of_expert_gradient].sum(axis=1),
        tied=weights[:, ops.is_tied[held]].sum(axis=1),
        plain_frozen=frozen[:, ~of_expert].sum(axis=1),
        expert_frozen=frozen[:, of_expert].sum(axis=1),
        tied_frozen=frozen[:, ops.is_tied[held]].sum(axis=1),
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
    whole_elements = num * whole_rows * whole_cols
    gathered = np.where(weights < whole_elements, whole_elements, 0.0)
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
    """Whether a stage holds both the embedding and the head, so that tied weights and their owner are on one device.

    `are_layers` says of each block of the stage whether it is a layer. Such stages are the only one of a pipeline
    without stages, the first of ZB-V, the first and the last of DualPipe.
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
    """`of_block` summed over the blocks of a stage; tied elements are left out where the stage has their owner."""
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
    """Plans as columns, and one device's share of the model: operators, parameters and updates.

    Each property is computed on first use, per distinct cut or per distinct update.
    """

    graph: Graph
    plans: Plans
    cuts: Cuts

    def at(self, rows: IntArray) -> ShardedPlans:
        """Some of the plans, in the order given; properties that were computed per cut are kept."""
        cuts = replace(self.cuts, of_plan=self.cuts.of_plan[rows])
        chosen = ShardedPlans(graph=self.graph, plans=self.plans.at(rows), cuts=cuts)
        chosen.__dict__.update({name: self.__dict__[name] for name in _BY_CUT if name in self.__dict__})
        return chosen

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
        return block_rows([block.ops for block in self.graph.blocks], self.plans.policies)

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
        """As `elements`, with the matrices that `optimizer` updates as matrices."""
        if optimizer not in self._by_optimizer:
            blocks = zip(self.elements, self.graph.blocks, strict=True)
            elements_of_blocks = tuple(
                with_matrices(elements, block, self.cuts, optimizer) for elements, block in blocks
            )
            self._by_optimizer[optimizer] = elements_of_blocks
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
        plans_of_updates = self.plans.at(self._updates[0])
        return local_ops(
            joined_ops(self.updates), degrees_of(plans_of_updates, self.graph), loads_of(plans_of_updates, self.graph)
        )

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
    """One sharded plan: a table of one row, and which layers each stage holds."""

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
            ops = with_recompute(ops, table.plans.policies[span.policy])
            if not table.are_ties_apart[0]:
                ops = ops.where(~((ops.phase == Phase.UPDATE) & ops.is_tied))
            [carried] = local_elements(
                np.array(whole.boundary_activation_elements), np.array(whole.boundary_activation_split), degrees
            )
            self._blocks[key] = replace(whole, ops=ops, boundary_activation_elements=int(carried))
        return self._blocks[key]


def shard(graph: Graph, plan: Plan) -> ShardedPlan:
    """One microbatch of `graph` sharded by `plan`, which must have passed `check_plan`.

    The shards of all devices over all microbatches add up to the graph; operators that an axis does not split are
    computed by every rank of that axis, as in Megatron-LM.
    """
    return ShardedPlan(plan=plan, table=shard_plans(graph, columns_of([plan])), runs=runs_of(graph, plan))


def computed_flop(graph: Graph, *, is_causal: bool = True) -> float:
    """The model's FLOP per step (the numerator of MFU), without those of tokens that experts drop.

    Causally counted, attention is the pairs that its mask leaves; else it is the whole matrix, as PaLM counts it.
    """
    total_flop = 0.0
    for block in graph.blocks:
        is_routed = np.any(block.ops.splits & int(Axis.ROUTED), axis=1)
        kept = np.where(is_routed, graph.routing.kept_frac, 1.0)
        total_flop += block.repeat * float(
            (kept * (block.ops.causal_flop if is_causal else block.ops.model_flop)).sum()
        )
    return total_flop


def executed_flop(sharded: ShardedPlan) -> float:
    """FLOP that the tensor units of all devices execute per step (the numerator of HFU).

    Recompute and work that several ranks repeat count, masked attention scores do not. Microbatches are divided among
    the copies of a chunk; each copy runs its own update, once per step.
    """
    table, plan = sharded.table, sharded.plan
    num_replicas = plan.num_devices / plan.pipeline_parallel
    mean_frac = table.graph.routing.mean / float(table.cuts.loads[0])  # of the most loaded device's rows, a mean one's
    pass_flop = _tensor_flop(table.local, mean_frac, int(table.cuts.degrees[Axis.HOPS][0]))
    update_flop = _tensor_flop(table.local_updates, mean_frac, 1)
    ends = np.cumsum([len(ops) for ops in table.updates])
    per_microbatch = per_step = 0.0
    for run in sharded.runs:
        for span in run.spans:
            rows, updates, end = table.blocks[span.block], table.updates[span.block], ends[span.block]
            does_run = rows.runs[span.policy] & (rows.ops.phase != Phase.UPDATE)
            is_updated = ~updates.is_tied | table.are_ties_apart[0]
            num_repeats = run.num_stages * span.count
            per_microbatch += num_repeats * float(pass_flop[rows.place][does_run].sum())
            per_step += num_repeats * float(update_flop[end - len(updates) : end][is_updated].sum())
    return num_replicas * (sharded.num_microbatches / plan.num_copies * per_microbatch + per_step)


def _tensor_flop(ops: Ops, mean_frac: float, num_hops: int) -> FloatArray:
    """FLOP of each operator on the tensor units of a device whose experts get the mean, attention over all parts."""
    is_routed = np.any(ops.splits & int(Axis.ROUTED), axis=1)
    is_parted = (ops.splits[:, N] & int(Axis.HOPS)) != 0
    flop = np.where(is_routed, mean_frac, 1.0) * ops.flop * np.where(is_parted, num_hops, 1)
    return np.where(ops.unit == Unit.TENSOR, flop, 0.0)
