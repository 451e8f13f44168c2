"""Sizes that grow with batch and length: so many a sample, so many a position of a sample, or always the same.

A model is recorded at two batches and two lengths. How often each side of a tensor doubles with either tells samples
and positions from channels and heads, without a guess at which side is which.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from dovetail.errors import InvalidInput
from dovetail.workload.recorded.record import Recorded

MAX_POWER = 3
_NUM_OFF = 2  # positions: a shift of labels, a beginning and an end


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """count / per x batch^num_batch x seq^num_seq elements."""

    count: int
    num_batch: int = 0
    num_seq: int = 0
    per: int = 1

    def __mul__(self, other: Size) -> Size:
        count, per = self.count * other.count, self.per * other.per
        common = gcd(count, per) or 1
        powers = self.num_batch + other.num_batch, self.num_seq + other.num_seq
        return Size(count // common, *powers, per // common)

    def over(self, other: Size) -> Size:
        """This many for each of `other`, which must not have been recorded as none."""
        inverse = Size(other.per, -other.num_batch, -other.num_seq, other.count)
        return self * inverse

    def at(self, batch: int, seq: int) -> int:
        """How many of them there are; a part of one is a whole one, as kernels round up."""
        above = self.count * batch ** max(0, self.num_batch) * seq ** max(0, self.num_seq)
        below = self.per * batch ** max(0, -self.num_batch) * seq ** max(0, -self.num_seq)
        return int(-(-above // below))

    @property
    def is_fixed(self) -> bool:
        return self.num_batch == 0 and self.num_seq == 0


ONE = Size(1)
Sides = tuple[Size, ...]


def product(sizes: Iterable[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total


def tensor_sides(recorded: Recorded) -> tuple[tuple[Sides, ...], frozenset[int]]:
    """The sides of each tensor of the base recording, and those tensors that are for the recorded length alone.

    Some side of these grows neither with the length nor stays as it is (ten more than the length, say); it is taken
    as it was recorded.
    """
    base, other_batch, other_seq = recorded.base, recorded.other_batch, recorded.other_seq
    num_tensors = len(base.tensors)
    if len(other_batch.tensors) != num_tensors or len(other_seq.tensors) != num_tensors:
        raise InvalidInput(f"{base.name} makes other tensors for other sizes of its input; its shapes are not fixed")
    found: list[Sides] = []
    odd: set[int] = set()
    for index, tensor in enumerate(base.tensors):
        sides = []
        shapes = tensor.shape, other_batch.tensors[index].shape, other_seq.tensors[index].shape
        if len({len(shape) for shape in shapes}) > 1:
            raise InvalidInput(f"{base.name} makes tensors of other ranks for other sizes of its input")
        for count, with_batch, with_seq in zip(*shapes, strict=True):
            num_batch = _exponent(count, with_batch, recorded.batch, recorded.second_batch)
            num_seq = _exponent(count, with_seq, recorded.seq, recorded.second_seq)
            samples = recorded.batch ** (num_batch or 0)
            near = _near_length(count // samples, with_seq // samples, recorded) if num_seq is None else 0
            if near:
                count, num_seq = near * samples, 1  # the length itself
            if num_seq is None or num_batch is None:
                odd.add(index)
            sides.append(_size(count, num_batch or 0, num_seq or 0, recorded))
        found.append(tuple(sides))
    return tuple(found), frozenset(odd)


def _exponent(count: int, other: int, at: int, second: int) -> int | None:
    """How often `count` grows with what went from `at` to `second`; None where no whole power says it."""
    if count == other:
        return 0
    for exponent in range(1, MAX_POWER + 1):
        if other * at**exponent == count * second**exponent:
            return exponent
    return None


def _near_length(count: int, other: int, recorded: Recorded) -> int:
    """A multiple of the length that `count` is one or two off of, at both lengths; 0 where there is none.

    So are labels that are shifted by one, and a class token beside positions: they are taken for the length.
    """
    grown, by = other - count, recorded.second_seq - recorded.seq
    if not by or grown % by or grown // by < 1:
        return 0
    times = grown // by
    return times * recorded.seq if abs(count - times * recorded.seq) <= _NUM_OFF else 0


def _size(count: int, num_batch: int, num_seq: int, recorded: Recorded) -> Size:
    below = recorded.batch**num_batch * recorded.seq**num_seq
    common = gcd(count, below) or 1
    return Size(count // common, num_batch, num_seq, below // common)
