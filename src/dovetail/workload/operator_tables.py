"""What an operator is, and all of them as columns by code: what graphs and costs look up.

`operators` holds them by name. The built-in ones are in `workload.operators`; a plugin adds vector operators of its
own behind them, so that codes of the built-in ones never change.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.registry import Registry, holding, named


class Unit(IntEnum):
    """What runs an operator."""

    NONE = 0  # the name of a tensor, no work
    TENSOR = 1
    VECTOR = 2
    NETWORK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One sweep of a vector operator over its elements."""

    num_reads: float = 1.0
    num_writes: float = 1.0
    flop_per_element: float = 1.0
    side_bytes_per_element: float = 0.0  # masks, indices, fp32 copies: moved besides the tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of operator, forward and backward, and what it keeps for its backward pass."""

    name: str
    unit: Unit
    forward: Pass = Pass()
    backward: Pass = Pass()
    keeps_input: bool = False
    keeps_output: bool = False
    kept_bytes_per_element: float = 0.0  # kept beside tensors: masks, statistics
    conjugate: str = ""  # network operators: what their backward pass is


MOST_OPERATORS = 256  # places of the tables: built-ins, and those that plugins bring
OPERATORS: list[Operator] = []
_CODES: dict[str, int] = {}
# by code
UNIT = np.zeros(MOST_OPERATORS, dtype=np.int8)
KEEPS_INPUT = np.zeros(MOST_OPERATORS, dtype=np.bool_)
KEEPS_OUTPUT = np.zeros(MOST_OPERATORS, dtype=np.bool_)
# rows of these tables: forward, backward
NUM_READS = np.zeros((2, MOST_OPERATORS))
NUM_WRITES = np.zeros((2, MOST_OPERATORS))
FLOP_PER_ELEMENT = np.zeros((2, MOST_OPERATORS))
SIDE_BYTES_PER_ELEMENT = np.zeros((2, MOST_OPERATORS))


def _check(name: str, operator: Operator) -> None:
    """Raises where a plugin's operator is none that a graph can hold."""
    holding("operator", Operator)(name, operator)
    named("operator", name, operator.name)
    if operator.unit != Unit.VECTOR:
        unit = Unit(operator.unit).name.lower()
        message = f"an operator of a plugin runs on the vector units; {name!r} is for {unit}"
        raise NotModelled(f"{message}; products are linear, matmul and the like, whose cost a plugin can give", "unit")
    for ways in (operator.forward, operator.backward):
        for figure in fields(Pass):
            if not 0 <= getattr(ways, figure.name) < np.inf:
                got = getattr(ways, figure.name)
                raise InvalidInput(f"{figure.name} of {name!r} must be 0 or more; got {got}", figure.name)
    if len(OPERATORS) == MOST_OPERATORS:
        raise InvalidInput(f"there is room for {MOST_OPERATORS} operators, and all are taken")


def _added(operator: Operator) -> None:
    code = len(OPERATORS)
    OPERATORS.append(operator)
    _CODES[operator.name] = code
    UNIT[code], KEEPS_INPUT[code], KEEPS_OUTPUT[code] = operator.unit, operator.keeps_input, operator.keeps_output
    for row, ways in enumerate((operator.forward, operator.backward)):
        NUM_READS[row, code], NUM_WRITES[row, code] = ways.num_reads, ways.num_writes
        FLOP_PER_ELEMENT[row, code] = ways.flop_per_element
        SIDE_BYTES_PER_ELEMENT[row, code] = ways.side_bytes_per_element


def _dropped(operator: Operator) -> None:
    """Entries are withdrawn from the last on, so codes stay what they are."""
    assert OPERATORS[-1] == operator, f"{operator.name} is not the last operator"
    OPERATORS.pop()
    del _CODES[operator.name]


operators: Registry[Operator] = Registry("operator", check=_check, added=_added, dropped=_dropped)


def own_operators() -> tuple[str, ...]:
    """The names of those that plugins brought."""
    return tuple(name for name in operators.names() if operators.owner(name))


def code_of(name: str) -> int:
    """The index of an operator by name."""
    if name not in _CODES:
        raise NotModelled(f"operator {name!r} is not modelled{did_you_mean(name, _CODES)}")
    return _CODES[name]
