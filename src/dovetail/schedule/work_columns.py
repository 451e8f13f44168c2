"""Work of both directions as the rows of one array, so that many blocks, plans or stages are summed in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from dovetail.cost.cost import Cost
from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.endpoints import Endpoint
from dovetail.schedule.work import COMM_AXES, StageWork, Work, held_fracs
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray

COSTS = tuple(field.name for field in fields(Cost))
# What time and energy of a step follow from stands first, and then what only tells where the time goes.
_TIMED = (
    *(("cost", COSTS.index(name)) for name in ("compute_s", "clocked_s", "energy_j", "core_j", "host_s")),
    *(("core", COSTS.index(name)) for name in ("compute_s", "clocked_s")),
    *((name, axis) for name in ("waiting_s", "beside_s") for axis in range(len(COMM_AXES))),
    ("sent_bytes", 0),
    ("weight_s", 0),
)
_EVERY = (
    *((part, index) for part in ("cost", "core") for index in range(len(COSTS))),
    *((name, axis) for name in ("waiting_s", "beside_s") for axis in range(len(COMM_AXES))),
    *((name, 0) for name in ("sent_bytes", "weight_s", "recompute_s")),
    *(("limits_s", limit) for limit in range(len(LIMITS))),
)
_ORDER = tuple(dict.fromkeys((*_TIMED, *_EVERY)))
ROWS = {
    part: tuple(_ORDER.index(row) for row in sorted(_EVERY) if row[0] == part)
    for part in dict.fromkeys(part for part, _ in _EVERY)
}
NUM_TIMED, NUM_ROWS = len(_TIMED), len(_ORDER)
COMPUTE, HOST = (ROWS["cost"][COSTS.index(name)] for name in ("compute_s", "host_s"))
WAYS = 2  # forward and backward, the first axis of such arrays; the second are these rows


def cost_of(rows: Sequence[Amount] | FloatArray) -> Cost:
    """Rows in the order of COSTS as a value."""
    return Cost(**dict(zip(COSTS, rows, strict=True)))


def stage_work(columns: FloatArray, endpoint: Endpoint) -> StageWork:
    """Ways by rows by whatever there is of them, as a value of as many stages; rows left out are nothing."""
    held_frac = held_fracs(endpoint)
    forward, backward = (_work([*way, *(0.0 for _ in range(NUM_ROWS - len(way)))], held_frac) for way in columns)
    return StageWork(forward=forward, backward=backward)


def _work(rows: Sequence[Amount], held_frac: tuple[float, ...]) -> Work:
    part = {name: tuple(rows[index] for index in places) for name, places in ROWS.items()}
    cost, core = (cost_of(part[name]) for name in ("cost", "core"))
    return Work(
        cost=cost,
        core=core,
        waiting_s=part["waiting_s"],
        beside_s=part["beside_s"],
        sent_bytes=part["sent_bytes"][0],
        recompute_s=part["recompute_s"][0],
        weight_s=part["weight_s"][0],
        limits_s=part["limits_s"],
        held_frac=held_frac,
    )
