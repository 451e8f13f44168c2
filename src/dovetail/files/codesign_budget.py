"""What a system may take at the most, as a spec and the command line say it; and where neither says, a reticle."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.built_on import positive_amount
from dovetail.files.entry import Entry
from dovetail.files.schema import Number, Shape, amount, checked
from dovetail.files.value_formats import Words, quantity_text
from dovetail.search.codesign.question import NO_PRICE, Budget


def _dollars(written: object) -> object:
    if isinstance(written, str):
        raise PydanticCustomError("rule", "{rule}", {"rule": "must be dollars as a number without a unit, as in 10000"})
    return written


class _Budget(Shape):
    area: amount("mm2") = math.inf  # type: ignore[valid-type]
    power: amount("w") = math.inf  # type: ignore[valid-type]
    total_area: amount("mm2") = math.inf  # type: ignore[valid-type]
    total_power: amount("w") = math.inf  # type: ignore[valid-type]
    total_usd: Annotated[Number, BeforeValidator(_dollars)] = math.inf


BASE = "base"  # a limit that is what the base chip itself takes
BY_BASE = ("area_mm2", "power_w")  # limited by the base where no limit is given at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a question, which of them are defaults, and which are what the base chip itself takes."""

    budget: Budget
    assumed: tuple[str, ...]
    of_base: tuple[str, ...] = ()

    def words(self) -> Words:
        """The `budget` section of a spec that says the same."""
        given = {name: limit for name, limit in asdict(self.budget).items() if name not in self.assumed}
        found = dict(_words(name, limit) for name, limit in given.items() if math.isfinite(limit))
        return found | {_key(name): BASE for name in self.of_base if name not in self.assumed}


def _key(name: str) -> str:
    return name if name.endswith("_usd") else name.rpartition("_")[0]


def _words(name: str, limit: float) -> tuple[str, float | str]:
    unit = name.rpartition("_")[2]
    return (name, limit) if unit == "usd" else (_key(name), quantity_text(limit, unit))


def limits_of_request(area: str, power: str, spec: Entry | None, default_mm2: float, base: Budget) -> Limits:
    """What the command line says goes before what the spec says.

    `base` is what the base chip takes of every limit: a chip has at most its area and power where no limit is given.
    Where some are given and no area, it has at most `default_mm2`; where that is infinite, nothing is limited.
    """
    entry = spec.child("budget") if spec is not None and spec.has("budget") else None
    as_base, rest = _as_base(entry)
    given = checked(entry, _Budget, written=rest) if entry is not None and rest else _Budget()
    limits = {
        "area_mm2": positive_amount("--area", area, "mm2") if area and area != BASE else given.area,
        "power_w": positive_amount("--power", power, "w") if power and power != BASE else given.power,
        "total_area_mm2": given.total_area,
        "total_power_w": given.total_power,
        "total_usd": float(given.total_usd),
    }
    for name, option in (("area_mm2", area), ("power_w", power)):
        as_base = as_base - {name} | ({name} if option == BASE else set()) if option else as_base
    is_any_given = as_base or any(math.isfinite(limit) for limit in limits.values())
    assumed: tuple[str, ...] = ()
    if default_mm2 < math.inf and not is_any_given:
        as_base, assumed = as_base | set(BY_BASE), BY_BASE
    elif limits["area_mm2"] == math.inf and "area_mm2" not in as_base and default_mm2 < math.inf:
        limits["area_mm2"], assumed = default_mm2, ("area_mm2",)
    if "total_usd" in as_base and math.isinf(base.total_usd):
        raise NotModelled(NO_PRICE, spec.at("budget").where if spec is not None else "network")
    limits |= {name: getattr(base, name) for name in as_base}
    try:
        budget = Budget(**limits)
    except InvalidInput as error:
        where = spec.at("budget").where if spec is not None else error.where
        raise InvalidInput(error.message, where) from None
    return Limits(budget=budget, assumed=assumed, of_base=tuple(name for name in limits if name in as_base))


def _as_base(entry: Entry | None) -> tuple[set[str], dict[str, object]]:
    """The limits that are given as the base's, and the others as written."""
    if entry is None:
        return set(), {}
    if entry.value == BASE:
        return set(BY_BASE), {}
    names = {_key(name): name for name in Budget.__slots__}
    if not isinstance(entry.value, dict):
        checked(entry, _Budget)  # which refuses it
        return set(), {}
    written = entry.node.plain()
    own = {names[key] for key, value in written.items() if value == BASE and key in names}
    return own, {key: value for key, value in written.items() if names.get(key) not in own}
