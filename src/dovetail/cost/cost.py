"""What running something costs, as a value that adds up."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dovetail.units import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time and energy of work done on one chip at full clock; `a + b` is a then b, `n * a` is a repeated n times.

    `clocked_s` is the part of `compute_s` that a slower clock stretches, `core_j` the part of the dynamic `energy_j`
    that a lower voltage saves. Every amount may be an array: then this is as many costs at once.
    """

    compute_s: Amount = 0.0
    clocked_s: Amount = 0.0
    energy_j: Amount = 0.0
    core_j: Amount = 0.0
    flop: Amount = 0.0
    hbm_bytes: Amount = 0.0
    host_s: Amount = 0.0  # of the host that queues it

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in _FIELDS})

    def __mul__(self, num_repeats: Amount) -> Cost:
        return Cost(**{name: num_repeats * getattr(self, name) for name in _FIELDS})

    __rmul__ = __mul__


_FIELDS = tuple(field.name for field in fields(Cost))
