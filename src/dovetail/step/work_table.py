"""Work of one microbatch on the stages of many sharded plans at once, on one chip or many.

What does not depend on the chip (`PlacedPlans`: placement and communication variants), the cost of operators by chip
and the seconds of collectives by network are each computed once, over distinct rows, and joined in a `WorkTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dovetail.columns import distinct
from dovetail.cost.columns import ChipColumns
from dovetail.cost.cost import Cost
from dovetail.cost.costs import distinct_costs
from dovetail.cost.op_cost import LIMITS, OpCosts
from dovetail.cost.power import Load, at_clock, sustained_clock_frac
from dovetail.hardware.chip import Calibration, Chip
from dovetail.hardware.topology import Group
from dovetail.parallel.layout import AS_PLANNED, StageGroup
from dovetail.parallel.placement import Placements
from dovetail.parallel.plan import OVERLAPS, Plans
from dovetail.parallel.sharding import BlockElements, BlockRows, Cuts, ShardedPlans
from dovetail.step.communication import (
    CollectiveCalls,
    CollectiveOverheads,
    CommTotals,
    CommVariants,
    add_communication,
    add_ring_parts,
    block_collectives,
    collective_overheads,
    comm_totals,
    context_collectives,
    exclude_last_ring_part,
    joined_collectives,
    parameter_collectives,
)
from dovetail.step.sharding_copies import add_copies, priced_copies
from dovetail.step.work import (
    COSTS,
    DIRECTIONS,
    HOST,
    NUM_ROWS,
    NUM_TIMED,
    ROWS,
    ChipRows,
    Running,
    StageWork,
    cost_of,
    entered,
    stage_work,
    sustained,
)
from dovetail.workload.graph import Axis, BoolArray, FloatArray, IntArray, Ops
from dovetail.workload.optimizer import Precision

_NAME_OF_OVERLAP = {"data": "dp", "tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp"}
_WITHIN_MICROBATCH = ("tensor", "context", "expert", "expert_tensor")  # groups that every microbatch uses
_FOR_PARAMETERS = ("data", "expert_data")  # and those it uses from ZeRO-2 on
_FOR_MATRICES = ("tensor", "expert_tensor")  # and those that an update may use beside these


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedPlans:
    """Sharded plans placed on a network, with their distinct communication variants."""

    sharded: ShardedPlans
    precision: Precision
    variants: CommVariants
    comm_variant_of: IntArray
    grad_sync_variant_of: IntArray  # plans with the same gradient sync have the same

    def over(self, groups: tuple[Group, ...]) -> PlacedPlans:
        """The same plans over groups of the same ranks, whose links are others."""
        return replace(self, variants=replace(self.variants, groups=groups))

    def communicate(self, work: FloatArray, sent: Sequence[CommTotals], host_s: float) -> None:
        """Adds a block's communication to its `work`: directions by rows, by chips if many, by variants by policies."""
        exclude_last_ring_part(work, self.variants)
        add_communication(work, sent, host_s)

    def sent(self, overheads: CollectiveOverheads) -> tuple[tuple[CommTotals, ...], ...]:
        """All communication of each block, forward and backward."""
        found = []
        for index in range(len(self.sharded.blocks)):
            found.append(comm_totals(joined_collectives(self.sends(index, overheads)), self.variants))
        return tuple(found)

    def sends(self, index: int, overheads: CollectiveOverheads) -> tuple[CollectiveCalls, ...]:
        """Collectives of a block: its network operators, context parallelism, and parameters, dense and experts'."""
        sharded, variants = self.sharded, self.variants
        block, held, local = sharded.blocks[index], sharded.elements[index], sharded.local
        calls = [block_collectives(block, local, variants, overheads)]
        calls += context_collectives(block, local, variants, overheads)
        # where the owner of tied weights is on the same stage, the owner's collectives move them
        tied = np.where(variants.are_ties_apart, 0.0, held.tied[variants.cut])
        bytes_each = (self.precision.gather_bytes, self.precision.reduce_bytes)
        for name, parameters, gradients, tied_elsewhere in (
            ("data", held.plain, held.plain_gradients, tied),
            ("expert_data", held.experts, held.expert_gradients, 0.0),
        ):
            parameters_each, gradients_each = (
                parameters[variants.cut] - tied_elsewhere,
                gradients[variants.cut] - tied_elsewhere,
            )
            held_each = parameters_each, gradients_each
            num_policies = len(sharded.plans.policies)
            calls.append(
                parameter_collectives(
                    *held_each,
                    variants,
                    name,
                    bytes_each,
                    overheads,
                    num_policies,
                    is_forward_only=sharded.graph.is_forward_only,
                )
            )
        return tuple(calls)


def placed_plans(sharded: ShardedPlans, places: Placements, precision: Precision) -> PlacedPlans:
    """`sharded` plans at `places` on a network."""
    variants, comm_variant_of = _comm_variants(sharded, places)
    return PlacedPlans(
        sharded=sharded,
        precision=precision,
        variants=variants,
        comm_variant_of=comm_variant_of,
        grad_sync_variant_of=_grad_sync_variants(sharded, places, precision),
    )


def _comm_variants(sharded: ShardedPlans, places: Placements) -> tuple[CommVariants, IntArray]:
    """Distinct combinations of what communication within a microbatch depends on, and which of them each plan has."""
    plans, cuts = sharded.plans, sharded.cuts
    zero_stage = np.where(plans.zero_stage >= 2, plans.zero_stage, 0)
    is_sharded = zero_stage >= 2
    flags = {_NAME_OF_OVERLAP.get(name, name): plans.overlap[:, index] for index, name in enumerate(OVERLAPS)}
    flags["dp"] = flags["dp"] & is_sharded
    del flags["pp"]
    groups = {name: places.group_of[name] for name in _WITHIN_MICROBATCH}
    groups |= {name: np.where(is_sharded, places.group_of[name], 0) for name in _FOR_PARAMETERS}
    apart = sharded.are_ties_apart & is_sharded
    columns = (cuts.of_plan, zero_stage, apart, plans.dispatcher, *flags.values(), *groups.values())
    first, comm_variant_of = distinct(*columns)
    return CommVariants(
        cut=cuts.of_plan[first],
        num_cuts=len(cuts),
        loads=cuts.loads[cuts.of_plan[first]],
        is_sequence_parallel=plans.sequence_parallel[first],
        dispatcher=plans.dispatcher[first],
        choice=sharded.graph.choice,
        num_context_ranks=plans.context_parallel[first],
        context_comm_type=plans.context_comm_type[first],
        zero_stage=zero_stage[first],
        are_ties_apart=apart[first],
        groups=places.groups,
        group_of={name: column[first] for name, column in groups.items()},
        may_overlap={axis: column[first] for axis, column in flags.items()},
    ), comm_variant_of


def _grad_sync_variants(sharded: ShardedPlans, places: Placements, precision: Precision) -> IntArray:
    """Of each plan, which of the distinct combinations that the gradient sync depends on it has."""
    names = (*_FOR_PARAMETERS, *(_FOR_MATRICES if precision.entry.collectives else ()))
    return distinct(sharded.cuts.of_plan, sharded.plans.zero_stage, *(places.group_of[name] for name in names))[1]


def computed(
    rows: BlockRows, columns: FloatArray, limit: IntArray | None, num_cuts: int, calibration: Calibration
) -> FloatArray:
    """One microbatch through one repeat of a block, compute only: directions by rows of work by cuts by policies.

    `columns` are costs in the order of COSTS by operators of all blocks, cut after cut, and `limit` says what each
    operator is limited by; the result has the rows of work that are timed alone where that is not given.
    """
    sums, num_policies = rows.sums, len(rows.runs)
    columns = columns.reshape(len(COSTS), num_cuts, -1)[:, :, rows.place]
    found = np.zeros((DIRECTIONS, NUM_ROWS, num_cuts, num_policies))
    by_kind = (columns @ sums.kinds).reshape(len(COSTS), num_cuts, DIRECTIONS, 2, num_policies).transpose(2, 3, 0, 1, 4)
    for index, name in enumerate(("cost", "core")):
        found[:, ROWS[name]] = by_kind[:, index]
    found[:, ROWS["weight_flop"]] = _by_direction(columns[COSTS.index("flop")] @ sums.weights, num_cuts)
    times = columns[COSTS.index("compute_s")]
    found[:, ROWS["recompute_s"]] = _by_direction(times @ sums.recompute, num_cuts)
    found[1, HOST] += sums.has_rerun * calibration.host_rerun_s
    if limit is None:
        return found[:, :NUM_TIMED]
    limit = limit.reshape(num_cuts, -1)[:, rows.place]
    waits = np.where(limit == np.arange(len(LIMITS))[:, None, None], times, 0.0)
    limits = (waits @ sums.directions).reshape(-1, num_cuts, DIRECTIONS, num_policies)
    found[:, ROWS["limits_s"]] = limits.transpose(2, 0, 1, 3)
    return found


def _by_direction(sums: FloatArray, num_cuts: int) -> FloatArray:
    """Cuts by directions and policies, as directions by one row by cuts by policies."""
    return sums.reshape(num_cuts, DIRECTIONS, 1, -1).transpose(1, 2, 0, 3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkTable:
    """Work of a model's blocks for many plans.

    `works` (one per block) are directions by rows of work by communication variants by recompute policies, `updates`
    rows of cost by update variants. With many chips, each chip has its own variants, one chip's after another's, and
    `chip_of` is the chip of a plan.
    """

    sharded: ShardedPlans
    comm_variant_of: IntArray
    update_variant_of: IntArray
    grad_sync_variant_of: IntArray  # plans with the same gradient sync have the same
    are_ties_apart: BoolArray
    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    chip: Chip | ChipRows
    num_devices: int
    chip_of: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # nothing where there is one

    @property
    def plans(self) -> Plans:
        return self.sharded.plans

    @property
    def cuts(self) -> Cuts:
        return self.sharded.cuts

    @property
    def elements(self) -> tuple[BlockElements, ...]:
        """Parameters and gradients of one repeat of each block, by cut."""
        return self.sharded.elements

    def chip_at(self, rows: IntArray) -> Running:
        """The chip of the plans in `rows`, in the shape of `rows`; the one chip where there is only one."""
        return self.chip if isinstance(self.chip, Chip) else self.chip.at(self.chip_of[rows])

    @property
    def chip_of_variants(self) -> Running:
        """The chip of every communication variant, variants by 1; the one chip where there is only one."""
        if isinstance(self.chip, Chip):
            return self.chip
        num_chips = len(self.chip.tdp_w)
        return self.chip.at(np.repeat(np.arange(num_chips), self.works[0].shape[2] // num_chips)[:, None])

    def stages(self, runs: tuple[StageGroup, ...], rows: IntArray) -> StageWork:
        """One microbatch of the plans in `rows` on a stage of each run: plans by runs."""
        variant, plan_policy = self.comm_variant_of[rows], self.plans.recompute[rows]
        num_rows, num_policies = self.works[0].shape[1], self.works[0].shape[3]
        total = np.zeros((DIRECTIONS, num_rows, len(runs), len(rows)))
        for (block, policy), counts in _counts(runs).items():
            place = variant * num_policies + (plan_policy if policy == AS_PLANNED else policy)
            work = self.works[block].reshape(DIRECTIONS, num_rows, -1).take(place, axis=2)
            for index in np.flatnonzero(counts):
                total[:, :, index] += counts[index] * work
        chip = self.chip_at(rows[:, None])
        return sustained(entered(stage_work(total.swapaxes(2, 3), chip.endpoint_kind), chip), chip, self.num_devices)

    def update(self, runs: tuple[StageGroup, ...], rows: IntArray) -> Cost:
        """The update at the end of a step of the plans in `rows` on a stage of each run: plans by runs."""
        variant, total = self.update_variant_of[rows], np.zeros((len(COSTS), len(rows), len(runs)))
        for (block, _), counts in _counts(runs).items():
            total += self.updates[block][:, variant, None] * counts
        update = cost_of(total)
        return at_clock(update, sustained_clock_frac(Load(cost=update), self.chip_at(rows[:, None])))


def _counts(runs: tuple[StageGroup, ...]) -> dict[tuple[int, int], FloatArray]:
    """Repeats on a stage of each run, by block and policy."""
    found: dict[tuple[int, int], FloatArray] = {}
    for index, run in enumerate(runs):
        for span in run.spans:
            found.setdefault((span.block, span.policy), np.zeros(len(runs)))[index] += span.count
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipWorks:
    """Work of a model's blocks for the variants of `placed` on many chips, chip after chip: time and energy only.

    `rows` are the chips.
    """

    placed: PlacedPlans
    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    rows: ChipRows
    num_devices: int

    def pairs(self, plan: IntArray, chip: IntArray) -> WorkTable:
        """Some of the placed plans, each on one of the chips."""
        placed, sharded = self.placed, self.placed.sharded
        return WorkTable(
            sharded=sharded.at(plan),
            comm_variant_of=chip * len(placed.variants) + placed.comm_variant_of[plan],
            update_variant_of=chip * sharded.num_update_variants + sharded.update_variant_of[plan],
            grad_sync_variant_of=placed.grad_sync_variant_of[plan],
            are_ties_apart=sharded.are_ties_apart[plan],
            works=self.works,
            updates=self.updates,
            chip=self.rows,
            num_devices=self.num_devices,
            chip_of=chip,
        )


def chip_works(placed: PlacedPlans, chips: ChipColumns, rows: ChipRows, num_devices: int) -> ChipWorks:
    """The plans of `placed` on `chips`; `rows` holds what the cost functions do not read of the same chips."""
    costs_of = partial(distinct_costs, chips=chips)
    costs = costs_of(placed.sharded.costed_ops)
    blocks = costed(placed.sharded, costs, costs_of, rows.calibration, placed.precision, (len(chips),))
    works = with_communication(
        placed, blocks, placed.sent(collective_overheads(rows.calibration)), rows.calibration.host_exchange_s
    )
    return ChipWorks(
        placed=placed,
        works=tuple(work.reshape(*work.shape[:2], -1, work.shape[-1]) for work in works),
        updates=tuple(update.reshape(len(COSTS), -1) for update in blocks.updates),
        rows=rows,
        num_devices=num_devices,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costed:
    """Compute of a model's blocks and of their updates on one chip or many, without communication.

    `works` are directions by rows of work, by chips where there are many, by cuts by recompute policies; `updates`
    rows of cost, by chips where there are many, by update variants. `copies` are those of sharding (`priced_copies`).
    """

    works: tuple[FloatArray, ...]
    updates: tuple[FloatArray, ...]
    copies: FloatArray


def costed(
    sharded: ShardedPlans,
    costs: OpCosts,
    costs_of: Callable[[Ops], OpCosts],
    calibration: Calibration,
    precision: Precision,
    many: tuple[int, ...],
    limit: IntArray | None = None,
) -> Costed:
    """The blocks of `sharded` plans, whose operators cost `costs`, on one chip (`many` empty) or on many.

    `costs_of` costs the operators that ring attention and a framework's sharding add. Costs are of operators, or of
    chips by operators. With the `limit` of each operator all rows of work are there, else NUM_TIMED of them.
    """
    num_rows = NUM_TIMED if limit is None else NUM_ROWS
    cuts, local = sharded.cuts, sharded.local
    columns, update_columns = np.split(_columns(costs), [len(local)], axis=-1)
    add_ring_parts(columns, local, cuts.degrees[Axis.HOPS], lambda ops: _columns(costs_of(ops)))
    num_cuts = int(np.prod(many)) * len(cuts)
    found = (computed(block, columns, limit, num_cuts, calibration) for block in sharded.blocks)
    return Costed(
        works=tuple(work.reshape(DIRECTIONS, num_rows, *many, len(cuts), -1) for work in found),
        updates=_updated(sharded, update_columns.reshape(len(COSTS), *many, sharded.num_update_variants, -1)),
        copies=priced_copies(sharded, precision, costs_of, many),
    )


def _updated(sharded: ShardedPlans, columns: FloatArray) -> tuple[FloatArray, ...]:
    """The update of one repeat of each block, from costs by chips, if many, by update variants by operators.

    Tied weights are updated twice only when their owner and their user are on different stages.
    """
    updates, are_apart = sharded.updates, sharded.are_update_variants_apart
    ends = np.cumsum([len(ops) for ops in updates])[:-1]
    found = []
    for ops, block_columns in zip(updates, np.split(columns, ends, axis=-1), strict=True):
        runs = ~ops.is_tied | are_apart[:, None]
        found.append(np.where(runs, block_columns, 0.0).sum(axis=-1))
    return tuple(found)


def with_communication(
    placed: PlacedPlans, blocks: Costed, sent: Sequence[tuple[CommTotals, ...]], host_s: float
) -> tuple[FloatArray, ...]:
    """Work of each block with its communication, by variants in place of cuts; a call takes the host `host_s`."""
    works = tuple(work.take(placed.variants.cut, axis=-2) for work in blocks.works)
    add_copies(works, blocks.copies, placed.variants)
    for work, totals in zip(works, sent, strict=True):
        placed.communicate(work, totals, host_s)
    return works


def _columns(costs: OpCosts) -> FloatArray:
    return np.stack([getattr(costs, name) for name in COSTS])
