"""What chips are mined for, read from one spec: models with their batches, a plan, and the chip to build on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from dovetail.errors import InvalidInput
from dovetail.files.built_on import positive_amount, sized_workload, template_base, workload_entries
from dovetail.files.entry import Entry, placed
from dovetail.files.job import check_dtype, countable, spec_name
from dovetail.files.mining_stages import StageOverrides, StagesSpec, stages_of
from dovetail.files.plan import own_devices, plan_of
from dovetail.files.python_values import ModelHolder, ModelLike, SpecLike, as_model, as_spec
from dovetail.files.schema import Shape, Text, Whole, Wholes, amount, checked
from dovetail.hardware.chip import Chip
from dovetail.hardware.template import design_of
from dovetail.search.designs import COUNTS, SIDES, Limits, base_limits, design_space
from dovetail.search.mining.load import check_mined
from dovetail.search.mining.task import Task, fitting_batch, whole_batch
from dovetail.search.space import Space
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = "tpuv2-like"
# WHAM's budget, which goes with its space and the chip that this builds on. Designs on another chip may take what that
# one takes, and their space has it.
AREA_MM2, POWER_W = 606.68, 280.0
MAX_POINTS = 200_000  # style: a space that is bounded in seconds
MAX_VALUE = 65_536  # style: of sides, lanes and counts; such cores are far beyond any die, and areas stay readable
_KEY_OF = {
    "num_tensor": "counts",
    "num_vector": "counts",
    "num_rows": "sides",
    "num_cols": "sides",
    "num_lanes": "lanes",
}
SPEC_KEYS = ("workload", "models", "chip")  # one of them makes a file a spec rather than a model


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOverrides:
    """What a request says in place of its spec; empty or 0 where it says nothing."""

    base: str = ""
    area: str = ""
    power: str = ""
    batch: int = 0
    seq: int = 0
    headroom: float | None = None
    stages: StageOverrides = field(default_factory=StageOverrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningSpec:
    """Everything a search for a chip needs. `chosen_batch` is a batch that Dovetail chose, 0 where it was given.

    Where `stages` has devices, the planner is still to run, and tasks have all samples on one device.
    """

    name: str
    tasks: tuple[Task, ...]
    base: Chip
    limits: Limits
    space: Space
    chosen_batch: int
    stages: StagesSpec


class _Spec(Shape):
    name: Text = ""
    workload: object = None
    models: list[Any] | None = None
    plan: object = None
    chip: object = None
    devices: Whole = 0
    stages: Text = ""
    keep: Whole = 0
    space: object = None


class _Chip(Shape):
    base: object = None
    area: amount("mm2") = AREA_MM2  # type: ignore[valid-type]
    power: amount("w") = POWER_W  # type: ignore[valid-type]
    sides: Wholes = Field(default_factory=lambda: list(SIDES))
    lanes: Wholes = Field(default_factory=lambda: list(SIDES))
    counts: Wholes = Field(default_factory=lambda: list(COUNTS))


def load_mining(reference: SpecLike, overrides: MineOverrides) -> MiningSpec:
    """The spec in a file, or a model by name or file; what the command line says goes before what the spec says."""
    spec = as_spec(reference, SPEC_KEYS)
    if spec is None or isinstance(reference, Model | ModelHolder):
        return _of_model(reference, overrides)
    shape = checked(spec, _Spec)
    given = checked(spec.child("chip"), _Chip) if spec.has("chip") else _Chip()
    own_base = spec.child("chip").child("base") if given.base is not None else None
    base = template_base(overrides.base, own_base, BASE, "designs", overrides.headroom)
    entries = workload_entries(spec, "mine a chip for", has_own_size=bool(overrides.batch or overrides.seq))
    stages = stages_of(overrides.stages, spec, shape, len(entries))
    has_one = not stages.num_devices
    with countable():
        tasks = tuple(_task(spec, entry, overrides, base, has_one=has_one) for entry in entries)
    is_open = len(tasks) == 1 and has_one and _is_open(spec, entries[0], overrides)
    return MiningSpec(
        name=shape.name or spec_name(reference),
        tasks=tasks,
        base=base,
        limits=_limits(overrides, given, base, spec.child("chip")),
        space=_space(given, base, spec.child("chip")),
        chosen_batch=tasks[0].workload.global_batch if is_open else 0,
        stages=stages,
    )


def _of_model(reference: ModelLike, overrides: MineOverrides) -> MiningSpec:
    """A model alone, on one device."""
    model = as_model(reference, overrides.seq)
    base = template_base(overrides.base, None, BASE, "designs", overrides.headroom)
    stages = stages_of(overrides.stages, None, _Spec(), 1)
    is_open = not overrides.batch and not stages.num_devices
    with countable():
        workload = Workload(model=model, global_batch=overrides.batch or model.batch, seq=overrides.seq or model.seq)
        check_dtype(workload, base)
        task = fitting_batch(workload, base) if is_open else whole_batch(workload)
    return MiningSpec(
        name="",
        tasks=(task,),
        base=base,
        limits=_limits(overrides, _Chip(), base, None),
        space=design_space(**_own_values(_Chip(), base)),
        chosen_batch=task.workload.global_batch if is_open else 0,
        stages=stages,
    )


def _is_open(spec: Entry, entry: Entry, overrides: MineOverrides) -> bool:
    """Whether no batch is given, and one device holds it all."""
    is_given = entry.has("global_batch") or (isinstance(entry.value, str) and entry.value not in models)
    return not spec.has("plan") and not overrides.batch and not is_given


def _task(spec: Entry, entry: Entry, overrides: MineOverrides, base: Chip, *, has_one: bool) -> Task:
    workload = sized_workload(entry, overrides.batch, overrides.seq, base)
    if spec.has("plan"):
        entry = spec.child("plan")
        plan = plan_of(entry, workload.forward_graph(), own_devices(entry))
        with placed(entry):
            check_mined(plan)
        return Task(workload=workload, plan=plan)
    is_open = has_one and _is_open(spec, entry, overrides)
    return fitting_batch(workload, base) if is_open else whole_batch(workload)


def _limits(overrides: MineOverrides, given: Any, base: Chip, entry: Entry | None) -> Limits:
    own = base_limits(base) if base.name != BASE else Limits(area_mm2=AREA_MM2, power_w=POWER_W)
    area_mm2 = given.area if "area" in given.model_fields_set else own.area_mm2
    power_w = given.power if "power" in given.model_fields_set else own.power_w
    area_mm2 = positive_amount("--area", overrides.area, "mm2") if overrides.area else area_mm2
    power_w = positive_amount("--power", overrides.power, "w") if overrides.power else power_w
    if power_w == 0:
        raise InvalidInput("power must be above 0; got 0 W", entry.child("power").where if entry else "--power")
    return Limits(area_mm2=area_mm2, power_w=power_w)


def _own_values(given: Any, base: Chip) -> dict[str, tuple[int, ...]]:
    """Sides, lanes and counts; those not given go as far as the base's, where it is not WHAM's."""
    found = {key: tuple(getattr(given, key)) for key in ("sides", "lanes", "counts")}
    if base.name == BASE:
        return found
    cores = design_of(base)
    most = {
        "sides": max(cores.num_rows, cores.num_cols),
        "lanes": cores.num_lanes,
        "counts": max(cores.num_tensor, cores.num_vector),
    }
    for key, largest in most.items():
        if key not in given.model_fields_set:
            while found[key][-1] < largest:
                found[key] = (*found[key], 2 * found[key][-1])
    return found


def _space(given: Any, base: Chip, entry: Entry) -> Space:
    for key in ("sides", "lanes", "counts"):
        for place, value in enumerate(getattr(given, key)):
            if value > MAX_VALUE:
                raise entry.child(key).child(place).refused(f"{key} must be at most {MAX_VALUE:,}; got {value:,}")
    for place, count in enumerate(given.counts):
        if count < 1 or count & (count - 1):
            rule = "counts of cores are powers of two, because operators are split by halves"
            raise entry.child("counts").child(place).refused(f"{rule}; got {count}")
    with _in_chip(entry):
        space = design_space(**_own_values(given, base))
    if space.num_points > MAX_POINTS:
        message = f"a space has at most {MAX_POINTS:,} designs; got {space.num_points:,}"
        raise entry.refused(f"{message}; leave out sides, lanes or counts")
    return space


@contextmanager
def _in_chip(entry: Entry) -> Iterator[None]:
    """Errors of knobs, placed at the key that gives them their values."""
    try:
        yield
    except InvalidInput as error:
        key = _KEY_OF.get(error.where, "")
        raise entry.at(key).refused(error.message.replace(error.where, key)) from None
