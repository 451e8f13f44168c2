"""How a job to mine chips for is spread over devices: by the planner or not, and what its stages may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.entry import Entry, described, placed
from dovetail.files.plan_space import fixed_by, forbidden_by, space_of
from dovetail.search.mining.planning import several_stages
from dovetail.search.mining.stages import DIRECTIONS, MOST_KEPT, NUM_KEPT, ONE
from dovetail.search.planners.constraints import Constraint, overruled


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOverrides:
    """What a request says of stages in place of its spec; empty or 0 where it says nothing."""

    devices: int = 0
    stages: str = ""
    keep: int = 0
    fix: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesSpec:
    """Designs by stage or one for all, and, where the planner runs, on how many devices and for which plans."""

    way: str = ONE
    num_kept: int = NUM_KEPT
    num_devices: int = 0  # 0: the plan is given, or there is one device
    requested: tuple[Constraint, ...] = ()  # what a user wants of plans
    constraints: tuple[Constraint, ...] = ()  # with what designs by stage need of them too


def stages_of(overrides: StageOverrides, spec: Entry | None, given: Any, num_tasks: int) -> StagesSpec:
    """What the command line says, and then what a spec says; `given` is the spec as it was checked, or an empty one."""
    way = _way(overrides, spec, given.stages)
    if way != ONE and num_tasks > 1:
        where = "--stages" if overrides.stages or spec is None else spec.child("stages").where
        raise InvalidInput(f"stages: {way} is for one model; got {num_tasks}, so set stages: {ONE}", where)
    num_devices = overrides.devices or _count(spec, "devices", given.devices)
    if num_devices and spec is not None and spec.has("plan"):
        message = "the devices are those of the plan; leave out plan, and the planner finds one"
        raise InvalidInput(message, "--devices" if overrides.devices else spec.child("devices").where)
    num_kept = overrides.keep or _count(spec, "keep", given.keep) or NUM_KEPT
    if num_kept > MOST_KEPT:
        where = "--keep" if overrides.keep or spec is None else spec.child("keep").where
        raise InvalidInput(f"keep must be at most {MOST_KEPT}; got {num_kept:,}", where)
    _check_kept(overrides, spec, way)
    wanted = _constraints(overrides, spec, num_devices)
    return StagesSpec(
        way=way,
        num_kept=num_kept,
        num_devices=num_devices,
        requested=wanted,
        constraints=_staged(wanted, num_devices, way),
    )


def _check_kept(overrides: StageOverrides, spec: Entry | None, way: str) -> None:
    """Raises where designs to choose from are counted, and nothing is chosen by stage."""
    message = (
        "how many designs to keep counts only where stages have their own; set stages: mosaic or pooled, or leave it"
    )
    if way == ONE and overrides.keep:
        raise InvalidInput(f"{message} out", "--keep")
    if way == ONE and not overrides.stages and spec is not None and spec.has("keep"):
        raise InvalidInput(f"{message} out", spec.child("keep").where)


def _way(overrides: StageOverrides, spec: Entry | None, given: str) -> str:
    way = overrides.stages or given or ONE
    if way in DIRECTIONS:
        return way
    where = "--stages" if overrides.stages or spec is None else spec.child("stages").where
    raise InvalidInput(f"stages has no way that is named {described(way)}{did_you_mean(way, DIRECTIONS)}", where)


def _count(spec: Entry | None, key: str, value: int) -> int:
    if spec is not None and spec.has(key) and value < 1:
        raise spec.child(key).refused(f"{key} must be at least 1; got {value}")
    return value


def _constraints(overrides: StageOverrides, spec: Entry | None, num_devices: int) -> tuple[Constraint, ...]:
    over = (*map(fixed_by, overrides.fix), *(one for words in overrides.forbid for one in forbidden_by(words)))
    under: tuple[Constraint, ...] = ()
    if spec is not None and spec.has("space"):
        with placed(spec.child("space")):
            under = space_of(spec.child("space"))
    found = overruled(under, over)
    if found and not num_devices:
        message = "what the planner may choose from counts only where it runs; give the number of devices"
        raise InvalidInput(f"{message}, as --devices or devices:", found[0].where)
    return found


def _staged(wanted: tuple[Constraint, ...], num_devices: int, way: str) -> tuple[Constraint, ...]:
    """`wanted`, and several stages where those may have designs of their own and their number is not given."""
    is_given = any(one.key == "pipeline_parallel" for one in wanted)
    return wanted if way == ONE or is_given or num_devices <= 1 else (*wanted, several_stages(num_devices))
