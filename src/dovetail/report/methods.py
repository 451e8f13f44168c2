"""Ways of doing things that can be named: schedules, collectives, search, optimizers, recipes, dispatchers, kernels."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from dovetail.comm.collectives import collectives
from dovetail.comm.events.schedules import algorithms as collective_algorithms
from dovetail.parallel.dispatchers import dispatchers
from dovetail.registry import Registry
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.algorithms import algorithms as search_algorithms
from dovetail.step.pipelines import pipelines
from dovetail.workload.kernel_sets import kernel_sets
from dovetail.workload.optimizers import optimizers
from dovetail.workload.scaling_recipes import scaling_recipes

NAMED_BY: tuple[tuple[Registry[Any], str], ...] = (
    (pipelines, "a plan's `schedule`, as in `dovetail plan --fix schedule=NAME`"),
    (collectives, "`dovetail network NAME --engine closed`"),
    (collective_algorithms, "`dovetail network --algorithm NAME`"),
    (search_algorithms, "`--algorithm NAME` of `dovetail mine` and `codesign`"),
    (optimizers, "a workload's `precision.optimizer`"),
    (scaling_recipes, "a workload's `precision.recipe`"),
    (dispatchers, "a plan's `dispatcher`, as in `--plan ep=8,dispatcher=NAME`"),
    (kernel_sets, "a workload's `kernels`"),
)


def method_records() -> list[Record]:
    """One entry each, by kind and name; `plugin` is the file that registered it, empty for a built-in."""
    return [
        {"kind": registry.noun, "name": name, "summary": _summary(value), "plugin": registry.owner(name)}
        for registry, _ in NAMED_BY
        for name, value in registry.items()
    ]


def methods_table(records: list[Record]) -> Table:
    rows = tuple((record["name"], record["kind"], record["summary"] or "-") for record in records)
    title, columns = f"{len(rows)} methods", ("method", "kind", "what it is")
    return Table(title=title, columns=columns, rows=rows, align="lll", notes=tuple(_notes()))


def _summary(value: Any) -> str:
    """What it says of itself; of a function, the first paragraph of its docstring."""
    if hasattr(value, "summary"):
        return str(value.summary)
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split()).removesuffix(".")


def _notes() -> Iterator[str]:
    for registry, place in NAMED_BY:
        article = "an" if registry.noun[0] in "aeiou" else "a"
        yield f"{article} {registry.noun} is named by {place}"
