"""Costs of operators that a plugin gives in place of ours: a function of named columns, seconds out.

An entry is called by the operator it is of, "layernorm", or by an operator and a chip, "layernorm@h100-sxm", which
goes before one for all chips. It is `(rows, chips) -> seconds`: rows of a graph in columns of shape (rows, 1), chips in
columns of shape (chips,), and for each row on each chip how long its kernels run at full clock, launches apart. What
the operator launches, moves and spends stays ours, and so does what it waits for most.

Nothing is known of such a function but its values: not that a better chip makes it faster, nor what it is on a part of
a chip. So whatever prunes among chips, or cuts them up, refuses it (`refuse_own_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips as catalogue
from dovetail.registry import Registry, functions
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Ops
from dovetail.workload.operators import OPERATORS, UNIT, Unit, code_of

if TYPE_CHECKING:  # the families ask for what is here
    from dovetail.cost.families.rows import RowCosts, Rows

OperatorCost = Callable[["Rows", ChipColumns], FloatArray]
AT = "@"


def _check(name: str, seconds: OperatorCost) -> None:
    functions("operator cost")(name, seconds)
    kind, at, chip = name.partition(AT)
    if UNIT[code_of(kind)] not in (Unit.TENSOR, Unit.VECTOR):
        raise NotModelled(f"{kind!r} is not computed by a chip; the cost of an exchange is the network's")
    if at:
        catalogue[chip]  # raises, naming what is close; a plugin registers its chip before what that chip costs


operator_costs: Registry[OperatorCost] = Registry("operator cost", check=_check)


def own_kinds() -> tuple[int, ...]:
    """Codes of the operators that have a cost of their own, on some chip or all."""
    return tuple({code_of(name.partition(AT)[0]) for name in operator_costs.names()})


def is_costed_apart(kind: IntArray) -> BoolArray:
    """Which rows, by the code of their operator, have a cost of their own on some chip or all."""
    return np.isin(kind, own_kinds())


def with_own_costs(parts: RowCosts, rows: Rows, chips: ChipColumns) -> RowCosts:
    """`parts` of `rows` on `chips`, with the seconds of those that a plugin costs, and all that goes with them."""
    kinds = own_kinds()
    if not kinds or not np.isin(rows.kind, kinds).any():
        return parts
    ours_s = np.broadcast_to(parts.busy_s, (len(rows), len(chips)))
    busy_s = ours_s.copy()
    for code in set(rows.kind.tolist()) & set(kinds):
        mine = np.flatnonzero(rows.kind == code)
        for name, places in _applied(OPERATORS[code].name, chips):
            if len(places):
                busy_s[np.ix_(mine, places)] = _given_s(name, rows.at(mine), chips.at(places))
    # what of a row the clock stretches is a share of its time, as ours is of ours
    longer = np.divide(busy_s, ours_s, out=np.ones_like(busy_s), where=ours_s > 0)
    return replace(parts, busy_s=busy_s, clocked_s=parts.clocked_s * longer)


def _applied(kind: str, chips: ChipColumns) -> list[tuple[str, IntArray]]:
    """Entries of one operator, and which of `chips` each is for: one of the chip's own goes before that of all."""
    prefix = kind + AT
    found = [(name, name.removeprefix(prefix)) for name in operator_costs.names() if name.startswith(prefix)]
    by_chip = [(name, np.flatnonzero(chips.name == chip)) for name, chip in found]
    if kind not in operator_costs:
        return by_chip
    return [(kind, np.flatnonzero(~np.isin(chips.name, [chip for _, chip in found]))), *by_chip]


def _given_s(name: str, rows: Rows, chips: ChipColumns) -> FloatArray:
    """What an entry gives, once it is found to be seconds."""
    shape = (len(rows), len(chips))
    found: object = operator_costs[name](rows, chips)
    where = f"{operator_costs.owner(name)}: operator cost {name}"
    try:
        given_s = np.broadcast_to(np.asarray(found, dtype=np.float64), shape)
    except (TypeError, ValueError):
        got = f"an array of shape {np.shape(found)}" if isinstance(found, np.ndarray) else f"{found!r:.60}"
        message = f"an operator cost gives seconds for {shape[0]} rows by {shape[1]} chips"
        raise InvalidInput(f"{message}; got {got}", where) from None
    if not bool((np.isfinite(given_s) & (given_s >= 0)).all()):
        got = given_s[~(np.isfinite(given_s) & (given_s >= 0))][0]
        raise InvalidInput(f"an operator cost gives seconds of 0 or more; got {got:g}", where)
    return given_s


def refuse_own_costs(ops: Ops, chips: Iterable[str], what: str) -> None:
    """Raises where `ops` has an operator that a plugin costs on one of `chips`; `what` needs to know more of it."""
    known = entries_for(chips)
    for code in np.unique(ops.kind[np.isin(ops.kind, list(known))]):
        name = known[int(code)][0]
        message = f"{what}, and nothing is known of the cost of {name} but its values"
        way_out = "leave that plugin out, or simulate and plan on chips that are given"
        raise NotModelled(f"{message}; {way_out}", operator_costs.owner(name))


def entries_for(chips: Iterable[str]) -> dict[int, list[str]]:
    """By the code of an operator, the entries that are for all chips, or for one of these."""
    wanted, found = {"", *chips}, dict[int, list[str]]()
    for name in operator_costs.names():
        kind, _, chip = name.partition(AT)
        if chip in wanted:
            found.setdefault(code_of(kind), []).append(name)
    return found
