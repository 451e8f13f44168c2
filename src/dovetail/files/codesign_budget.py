"""What a system may take at the most, as a spec and the command line say it; and where neither says, a reticle."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from dovetail.errors import InvalidInput
from dovetail.files.built_on import positive_amount
from dovetail.files.entry import Entry
from dovetail.files.schema import Number, Shape, amount, checked
from dovetail.files.value_formats import Words, quantity_text
from dovetail.search.codesign.question import Budget


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a question, and which of them nobody said."""

    budget: Budget
    assumed: tuple[str, ...]

    def words(self) -> Words:
        """The `budget` section of a spec that says the same."""
        said = {name: limit for name, limit in asdict(self.budget).items() if name not in self.assumed}
        return dict(_words(name, limit) for name, limit in said.items() if math.isfinite(limit))


def _words(name: str, limit: float) -> tuple[str, float | str]:
    key, _, unit = name.rpartition("_")
    return (name, limit) if unit == "usd" else (key, quantity_text(limit, unit))


def limits_of_request(area: str, power: str, spec: Entry | None, default_mm2: float) -> Limits:
    """What the command line says goes before what the spec says; a chip has at most `default_mm2` if neither does."""
    given = checked(spec.child("budget"), _Budget) if spec is not None and spec.has("budget") else _Budget()
    area_mm2 = positive_amount("--area", area, "mm2") if area else given.area
    power_w = positive_amount("--power", power, "w") if power else given.power
    is_said = area_mm2 < math.inf
    try:
        budget = Budget(
            area_mm2=area_mm2 if is_said else default_mm2,
            power_w=power_w,
            total_area_mm2=given.total_area,
            total_power_w=given.total_power,
            total_usd=float(given.total_usd),
        )
    except InvalidInput as error:
        where = spec.at("budget").where if spec is not None else error.where
        raise InvalidInput(error.message, where) from None
    return Limits(budget=budget, assumed=() if is_said or default_mm2 == math.inf else ("area_mm2",))
