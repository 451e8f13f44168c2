"""The same question at many points, as rows of a table."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from dovetail.api.arguments import in_python
from dovetail.api.requests.jobs import simulate
from dovetail.api.simulated import Simulation
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.evaluate import Outcome
from dovetail.report.labels import plan_in_brief


@in_python
def sweep(*, over: Mapping[str, Iterable[Any]], **fixed: Any) -> list[dict[str, Any]]:
    """`simulate` at every combination of `over`, as rows for a table or a data frame.

    `over` has values by argument of `simulate`, as in {"global_batch": [256, 512]}; `fixed` are the arguments that
    stay. Every row has what was varied, whether it fits, and the figures of a step; those of a plan that does not fit
    end with the memory it needs.
    """
    known = tuple(inspect.signature(simulate).parameters)
    for name in (*over, *fixed):
        if name not in known:
            raise InvalidInput(f"simulate has no argument {name!r}{did_you_mean(name, known)}", "over")
    if twice := [name for name in over if name in fixed]:
        raise InvalidInput(f"{twice[0]} is both varied and fixed; give it once", "over")
    points = product(*(list(values) for values in over.values()))
    return [_row(dict(zip(over, point, strict=True)), fixed) for point in points]


def _row(varied: dict[str, Any], fixed: dict[str, Any]) -> dict[str, Any]:
    found = simulate(**fixed, **varied)
    values = {name: value if isinstance(value, str | int | float) else _named(value) for name, value in varied.items()}
    return values | figures(found)


def figures(found: Simulation) -> dict[str, Any]:
    """The figures of a step that one compares, by name."""
    row: dict[str, Any] = {
        "fits": found.fits,
        "plan_in_brief": plan_in_brief(found.plan),
        "need_bytes": found.memory.need_bytes,
        "limit_bytes": found.memory.limit_bytes,
    }
    if not isinstance(found.outcome, Outcome):
        return row
    return row | {
        "step_s": found.step_s,
        "tokens_per_s": found.tokens_per_s,
        "samples_per_s": found.samples_per_s,
        "mfu_frac": found.mfu_frac,
        "energy_j": found.energy_j,
        "limited_by": found.limited_by,
    }


def _named(value: Any) -> str:
    name = getattr(value, "name", "")
    return name if isinstance(name, str) and name else str(value)
