"""Rows of a store: a point in a byte for each knob, figures as they are in memory, and a checksum over all of it.

SQLite has no checksums of its own, so a bit that a disk turned would be a design with another loss. Each row carries
the CRC-32 of its content, begun with its study's key: one that does not match is damaged, or of another study.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from struct import Struct

from dovetail.search.algorithms import Scored
from dovetail.search.space import Point

COLUMNS = "point, loss, told, short_of, plan"
Row = tuple[bytes, float | None, bytes, str, str]
_LOW, _MORE = 0x7F, 0x80  # of a byte: seven bits of the number, and whether more follow
_NUM_CHECKSUM = 4  # bytes


class DamagedRow(Exception):
    """A row whose content is not what its checksum says."""


def point_bytes(point: Point) -> bytes:
    """A byte for each index below 128, and LEB128 for larger ones: one text for each point."""
    if not point or max(point) <= _LOW:
        return bytes(point)
    return bytes(chain.from_iterable(_groups(index) for index in point))


def _groups(index: int) -> Iterator[int]:
    while index > _LOW:
        yield index & _LOW | _MORE
        index >>= 7
    yield index


def point_of(text: bytes) -> Point:
    """The point that `point_bytes` wrote."""
    if text.isascii():
        return tuple(text)
    found, index, shift = [], 0, 0
    for byte in text:
        index |= (byte & _LOW) << shift
        shift += 7
        if byte <= _LOW:
            found.append(index)
            index, shift = 0, 0
    if shift:
        raise DamagedRow
    return tuple(found)


@cache
def _numbers(num_figures: int) -> Struct:
    """Loss, how far beyond a limit, and further figures."""
    return Struct(f"<{2 + num_figures}d")


@cache
def _layout(num_bytes: int) -> Struct:
    """A checksum, and numbers behind it."""
    num_numbers, odd = divmod(num_bytes - _NUM_CHECKSUM, 8)
    if odd or num_numbers < 2:
        raise DamagedRow
    return Struct(f"<I{num_numbers}d")


def seed_of(key: str) -> int:
    """What the checksums of a study's rows begin with."""
    return zlib.crc32(key.encode())


def row_of(one: Scored, seed: int) -> Row:
    """What is written of `one`; an infinite loss is no value, so that SQL's own least loss is the best design's."""
    assert one.loss > -math.inf, f"{one} has no rank"
    point, numbers = point_bytes(one.point), _numbers(len(one.also)).pack(one.loss, one.excess_frac, *one.also)
    checksum = zlib.crc32(point + numbers + (one.bottleneck + one.plan).encode(), seed)
    blob = checksum.to_bytes(_NUM_CHECKSUM, "little") + numbers
    return point, None if one.loss == math.inf else one.loss, blob, one.bottleneck, one.plan


def scored_rows(rows: Iterable[Row], seed: int) -> Iterator[Scored]:
    """What was kept, row by row; raises `DamagedRow` at one that is not what was written."""
    texts: dict[str, str] = {}  # plans repeat, and one copy of each will do
    one_copy, crc32, inf = texts.setdefault, zlib.crc32, math.inf
    for point, shown, blob, bottleneck, plan in rows:
        try:
            numbers = _layout(len(blob)).unpack(blob)
            is_whole = crc32(point + blob[_NUM_CHECKSUM:] + (bottleneck + plan).encode(), seed) == numbers[0]
        except TypeError:  # a column of another type than was written
            raise DamagedRow from None
        if not is_whole or numbers[1] != (inf if shown is None else shown):
            raise DamagedRow
        yield Scored(
            point=point_of(point),
            loss=numbers[1],
            excess_frac=numbers[2],
            also=numbers[3:],
            bottleneck=one_copy(bottleneck, bottleneck),
            plan=one_copy(plan, plan),
        )
