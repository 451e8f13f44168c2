"""Shapes of what people write, taken from the values they become.

A dataclass of the layers above gives a pydantic model: its fields without their unit, each read with its unit. So a new
field can be written in a spec as soon as it exists, and no list of keys is kept by hand.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dovetail.errors import DovetailError, did_you_mean
from dovetail.files.complaints import complaint
from dovetail.files.entry import Entry, described, placed
from dovetail.files.text import quoted
from dovetail.hardware.chip import Calibration, EnergyCosts, TensorUnits, Tiling, VectorUnits
from dovetail.hardware.die import Die
from dovetail.units import quantity, share_frac
from dovetail.workload.experts import Experts
from dovetail.workload.latent import LatentAttention
from dovetail.workload.operators import DTYPES
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_WHOLE = 10**9  # style: a bound on every count, so that products of two stay far inside 64 bits
LEAST_NUMBER, MOST_NUMBER = 1e-30, 1e30  # style: bounds, so that products and quotients of some stay finite
MAX_TEXT_CHARACTERS = 200
MAX_SENTENCE_CHARACTERS = 1000  # of a source
MAX_LIST = 10_000
# Units a field's name may end in, and what is left of the name as a key.
_UNIT = re.compile(r"(\w+?)_(bytes_per_s|flop_per_s|bytes|flop|hz|s|j|w|mm2|m)(_per_(?:flop|byte))?")
_MAY_BE_ZERO = {"j", "w", "s"}  # energies, idle power, latencies; their values refuse it where they cannot be zero
_WRITTEN: dict[type, dict[str, str]] = {
    Precision: {
        "has_master_weights": "master_weights",
        "has_momentum": "momentum",
        "has_persistent_gradients": "persistent_gradients",
        "has_compute_gradients": "compute_gradients",
        "has_unfused_accumulation": "unfused_accumulation",
        "has_autocast_weights": "autocast_weights",
    },
    Calibration: {
        "tile_step_s": "step",
        "exchange_s": "collective",
        "alone_s": "cold_start",
        "wait_s": "memory_round_trip",
        "host_exchange_s": "host_collective",
        "host_rerun_s": "host_recompute",
    },
    EnergyCosts: {"still_frac": "data_independent_frac"},
    TensorUnits: {"num_units": "units", "num_rows": "rows", "num_cols": "cols"},
    Tiling: {
        "num_steps": "steps",
        "is_output_hidden": "output_hidden",
        "is_array": "array",
        "num_loaded_rows": "loaded_rows",
    },
    VectorUnits: {"num_units": "units", "num_lanes": "lanes"},
    Die: {
        "num_dies": "dies",
        "num_io_dies": "io_dies",
        "register_bytes": "registers",
        "num_schedulers": "schedulers",
        "num_fp64_lanes": "fp64_lanes",
        "has_dot_products": "dot_products",
        "num_hbm_stacks": "hbm_stacks",
        "num_spare_hbm_phys": "spare_hbm_phys",
        "num_link_lanes": "link_lanes",
        "num_pcie_lanes": "pcie_lanes",
    },
}
# Keys as 0.1 had them, which are still read, and what they are called now.
_OLD_KEYS: dict[type, dict[str, str]] = {
    Precision: {
        "standing_gradients": "persistent_gradients",
        "adds_apart": "unfused_accumulation",
        "casts_at_use": "autocast_weights",
    },
    Routing: {"pads": "pads_to_capacity"},
    Experts: {"num_chosen": "num_experts_per_token"},
    LatentAttention: {"plain_width": "nope_width"},
    Calibration: {
        "exchange": "collective",
        "alone": "cold_start",
        "wait": "memory_round_trip",
        "host_exchange": "host_collective",
        "host_rerun": "host_recompute",
    },
    EnergyCosts: {"still_frac": "data_independent_frac"},
}
# Switches as 0.1 and later had them that have become names: what it is called now, and what on and off stand for.
_OLD_SWITCHES: dict[type, dict[str, tuple[str, dict[bool, str]]]] = {
    Precision: dict.fromkeys(("current_scales", "current_scaling"), ("recipe", {True: "current", False: ""})),
}
_NOT_WRITTEN = {"sources", "facts", "measured", "is_forward_only"}  # kept by us, or an option

T = TypeVar("T", bound="DataclassInstance")


class Shape(BaseModel):
    """A mapping with known keys; `old_keys` are those that were renamed, old to new, and are read all the same."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, defer_build=True)
    old_keys: ClassVar[Mapping[str, str]] = {}
    old_switches: ClassVar[Mapping[str, tuple[str, dict[bool, str]]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _by_new_keys(cls, written: Any) -> Any:
        if not isinstance(written, dict) or not (cls.old_keys.keys() | cls.old_switches.keys()) & written.keys():
            return written
        for old, (new, names) in cls.old_switches.items():
            if old in written:
                if new in written or not isinstance(written[old], bool):
                    message = f"{old} is an old switch for {new}; set {new}: {names[True]}, or remove {old}"
                    raise PydanticCustomError("message", "{message}", {"message": message})
                written = {key: value for key, value in written.items() if key != old} | {new: names[written[old]]}
        for old, new in cls.old_keys.items():
            if old in written and new in written:
                message = f"{old} is the old name of {new}; remove {old}"
                raise PydanticCustomError("message", "{message}", {"message": message})
        return {cls.old_keys.get(key, key): value for key, value in written.items()}


def amount(unit: str, example: str = "") -> Any:
    """A number with its unit, as a float in base `unit`; `example` is shown for one that cannot be read."""

    def read(written: object) -> float:
        try:
            value = quantity(written, unit, example)
        except DovetailError as error:
            raise PydanticCustomError("message", "{message}", {"message": error.message}) from None
        if value < 0 or (value == 0 and unit not in _MAY_BE_ZERO):
            bound = "not be negative" if unit in _MAY_BE_ZERO else "be above 0"
            raise PydanticCustomError("rule", "{rule}", {"rule": f"must {bound}"})
        if 0 < value < LEAST_NUMBER:
            raise PydanticCustomError("rule", "{rule}", {"rule": f"must be at least {LEAST_NUMBER:g} in base units"})
        return value

    return Annotated[float, BeforeValidator(read)]


def _share(written: object) -> float:
    try:
        return share_frac(written)
    except DovetailError as error:
        raise PydanticCustomError("message", "{message}", {"message": error.message}) from None


def _in_reach(value: float) -> float:
    if value and not LEAST_NUMBER <= abs(value) <= MOST_NUMBER:
        bounds = f"must be 0, or from {LEAST_NUMBER:g} to {MOST_NUMBER:g} but for its sign"
        raise PydanticCustomError("rule", "{rule}", {"rule": bounds})
    return value


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("rule", "{rule}", {"rule": "must hold printable characters only"})
    return text


def _dtype(name: str) -> str:
    if name not in DTYPES:
        message = f"no dtype is named {quoted(name)}{did_you_mean(name[:100], DTYPES)}"
        raise PydanticCustomError("message", "{message}", {"message": message})
    return name


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _run_length(value: object) -> object:
    """A name alone stands for one of it; else a name and how many of it follow each other."""
    if isinstance(value, str):
        return [value, 1]
    if isinstance(value, list) and [type(item) for item in value] == [str, int]:
        return value
    raise PydanticCustomError("rule", "{rule}", {"rule": "must be a name, or a name and a count such as [name, 5]"})


Share = Annotated[float, BeforeValidator(_share)]  # written as a percentage
Whole = Annotated[int, Field(ge=0, le=MAX_WHOLE)]
Number = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_in_reach)]
Text = Annotated[
    str,
    BeforeValidator(lambda v: _printable(v) if isinstance(v, str) else v),
    Field(min_length=1, max_length=MAX_TEXT_CHARACTERS),
]
Sentence = Annotated[
    str,
    BeforeValidator(lambda v: _printable(v) if isinstance(v, str) else v),
    Field(min_length=1, max_length=MAX_SENTENCE_CHARACTERS),
]
Words = Annotated[list[Text], BeforeValidator(_listed), Field(min_length=1, max_length=MAX_LIST)]
Wholes = Annotated[list[Whole], Field(max_length=MAX_LIST)]
Triple = Annotated[list[Whole], Field(min_length=3, max_length=3)]
Pair = Annotated[list[Whole], Field(min_length=2, max_length=2)]
Pairs = Annotated[list[Pair], Field(min_length=1, max_length=MAX_LIST)]
RunLength = Annotated[list[Text | Whole], BeforeValidator(_run_length), Field(min_length=2, max_length=2)]
RunLengths = Annotated[list[RunLength], BeforeValidator(_listed), Field(max_length=MAX_LIST)]
Dtype = Annotated[Text, AfterValidator(_dtype)]
Rates: Any = Annotated[dict[Dtype, amount("flop_per_s")], Field(min_length=1)]  # type: ignore[misc]
_SHAPES: dict[Any, Any] = {
    bool: bool,
    int: Whole,
    str: Text,
    float: Number,
    tuple[str, ...]: Words,
    tuple[int, ...]: Wholes,
    tuple[int, int, int]: Triple,
    tuple[tuple[int, int], ...]: Pairs,
    tuple[tuple[str, int], ...]: RunLengths,
    tuple[tuple[str, float], ...]: Rates,
}


def written_keys(value_type: type[DataclassInstance]) -> dict[str, str]:
    """Field name to key, for the fields people write: `capacity_bytes` is written `capacity`."""
    return dict(_written_keys(value_type))


@cache
def hints_of(value_type: Any) -> dict[str, Any]:
    """Field name to type of a dataclass; evaluated once."""
    return typing.get_type_hints(value_type)


@cache
def _written_keys(value_type: Any) -> dict[str, str]:
    keys = {}
    for field in dataclasses.fields(value_type):
        if field.name not in _NOT_WRITTEN:
            match = _UNIT.fullmatch(field.name)
            plain = match[1] + (match[3] or "") if match else field.name
            keys[field.name] = _WRITTEN.get(value_type, {}).get(field.name, plain)
    return keys


def unit_of(field_name: str) -> str:
    """The unit that a field's name ends in, of those that are read; empty where it ends in none."""
    match = _UNIT.fullmatch(field_name)
    return match[2] if match else ""


@cache
def shape_of(value_type: type[DataclassInstance], *, is_partial: bool = False) -> type[Shape]:
    """The shape people write a `value_type` in. Partial: every key may be left out, as when there is a base."""
    hints = hints_of(value_type)
    keys = written_keys(value_type)
    members: dict[str, Any] = {}
    for field in dataclasses.fields(value_type):
        if field.name not in keys:
            continue
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        default = None if is_partial or has_default else ...
        members[field.name] = (
            _shape(hints[field.name], field.name, is_partial),
            Field(default, alias=keys[field.name]),
        )
    shape = create_model(f"{value_type.__name__}Shape", __base__=Shape, **members)
    shape.old_keys = _OLD_KEYS.get(value_type, {})
    shape.old_switches = _OLD_SWITCHES.get(value_type, {})
    return shape


def _shape(hint: Any, name: str, is_partial: bool) -> Any:
    if hint is float and (match := _UNIT.fullmatch(name)):
        return amount(match[2])
    if isinstance(hint, types.UnionType):
        [hint] = [option for option in typing.get_args(hint) if option is not types.NoneType]
        return shape_of(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return shape_of(hint, is_partial=is_partial)
    return _SHAPES[hint]


def checked(
    entry: Entry,
    shape: type[Shape],
    *,
    written: Mapping[str, Any] | None = None,
    keys: Mapping[str, str] | None = None,
    hint: str = "",
) -> Any:
    """`entry` as a `shape`.

    `written` stands in for its mapping where names were changed, and `keys` says under which key each was written;
    `hint` ends the message when a key is missing.
    """
    if not isinstance(entry.value, dict):
        raise entry.refused(f"{entry.key} must be a mapping of keys to values; got {described(entry.value)}")
    try:
        return shape.model_validate(entry.node.plain() if written is None else written)
    except ValidationError as error:
        complaints = [complaint(entry, shape, detail, keys or {}, hint) for detail in error.errors(include_url=False)]
        raise min(complaints, key=lambda one: one[:2])[2] from None


def values_of(
    value_type: type[DataclassInstance],
    shape: Any,
    entry: Entry,
    base: object = None,
    starts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The fields that were written, as the values they become; parts not written come from `base`'s parts.

    `starts` are parts that begin as another value than the base's.
    """
    starts = starts or {}
    hints, keys = hints_of(value_type), written_keys(value_type)
    values: dict[str, Any] = {}
    for name in [name for name in keys if name in shape.model_fields_set]:
        value = getattr(shape, name)
        if isinstance(value, Shape):
            [part] = [t for t in (typing.get_args(hints[name]) or (hints[name],)) if t is not types.NoneType]
            value = built(part, value, entry.child(keys[name]), starts.get(name, getattr(base, name, None)))
        elif isinstance(value, dict):  # rates: those not written keep what the base says
            value = tuple((dict(getattr(base, name, ())) | value).items())
        values[name] = _tupled(value)
    return values


def _tupled(value: Any) -> Any:
    """Lists as the tuples that values hold, all the way down."""
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value


def built(
    value_type: type[T],
    shape: Any,
    entry: Entry,
    base: T | None = None,
    starts: Mapping[str, Any] | None = None,
    **more: Any,
) -> T:
    """A `shape` as the value it describes, or `base` with what was written changed; `more` are fields of ours."""
    values = values_of(value_type, shape, entry, base, starts) | more
    keys = written_keys(value_type)
    with placed(entry, keys), _in_written_keys(keys):
        return value_type(**values) if base is None else dataclasses.replace(base, **values)


@contextmanager
def _in_written_keys(keys: Mapping[str, str]) -> Iterator[None]:
    """Errors name keys as they are written, not the fields they become: `tdp`, not `tdp_w`."""
    try:
        yield
    except DovetailError as error:
        message = re.sub(r"\b[a-z_0-9]+\b", lambda word: keys.get(word[0], word[0]), error.message)
        raise type(error)(message, error.where) from None
