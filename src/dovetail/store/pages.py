"""Records of a store's pages, read one page after another where the tree over them is broken or cut short.

SQLite finds rows through a tree of pages, so that one page lost may hide many. Rows and studies of a store say by
themselves whether they are what was written, so every page that is there may be read without its tree. The layout is
that of sqlite.org/fileformat2.html: 1.3 (header), 1.6 (pages), 2.1 (records).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX, TABLE = (2, 10), 13  # kinds of pages with records: of an index, inside and leaf, and the leaf of a table
_NUM_HEADER = 100  # bytes of the first page before its own
_INT_BYTES = (0, 1, 2, 3, 4, 6, 8)  # of whole numbers, by serial type
_FLOAT, _ZERO, _ONE, _BLOB = 7, 8, 9, 12  # serial types
Record = tuple[int, tuple[Any, ...]]  # the row's number, 0 in an index, and its values


class _Broken(Exception):
    """What is no record."""


@dataclass(frozen=True, slots=True)
class _Pages:
    """The file, page by page, as far as it goes."""

    content: bytes
    page_bytes: int
    used_bytes: int  # of a page

    def at(self, number: int) -> bytes:
        """The page of this number, the first is 1."""
        start = (number - 1) * self.page_bytes
        page = self.content[start : start + self.used_bytes]
        if number < 1 or len(page) < self.used_bytes:
            raise _Broken
        return page


def records(path: Path) -> Iterator[Record]:
    """Every record of every page that is whole, in the order of pages; some may be of pages given up since."""
    content = path.read_bytes()
    if len(content) < _NUM_HEADER:
        return
    page_bytes = int.from_bytes(content[16:18], "big")
    page_bytes = 1 << 16 if page_bytes == 1 else page_bytes
    pages = _Pages(content, page_bytes, page_bytes - content[20])
    if page_bytes < 512 or pages.used_bytes < 480:  # the least that SQLite makes
        return
    for number in range(1, len(content) // page_bytes + 1):
        yield from _records_of(pages, number)


def _records_of(pages: _Pages, number: int) -> Iterator[Record]:
    try:
        page = pages.at(number)
    except _Broken:
        return
    head = _NUM_HEADER if number == 1 else 0
    kind = page[head]
    if kind not in (*INDEX, TABLE):
        return
    cells = head + (12 if kind == INDEX[0] else 8)
    num_cells = int.from_bytes(page[head + 3 : head + 5], "big")
    for place in range(min(num_cells, (len(page) - cells) // 2)):
        at = int.from_bytes(page[cells + 2 * place : cells + 2 * place + 2], "big")
        try:
            yield _record(pages, page, kind, at)
        except (_Broken, IndexError, struct.error, UnicodeDecodeError):
            continue


def _record(pages: _Pages, page: bytes, kind: int, at: int) -> Record:
    if kind == INDEX[0]:
        at += 4  # the page on its left
    num_bytes, at = _varint(page, at)
    row, at = _varint(page, at) if kind == TABLE else (0, at)
    return row, tuple(_values(_payload(pages, page, at, num_bytes, is_table=kind == TABLE)))


def _payload(pages: _Pages, page: bytes, at: int, num_bytes: int, *, is_table: bool) -> bytes:
    """What a cell holds, with what did not find room in its page."""
    used = pages.used_bytes
    most = used - 35 if is_table else (used - 12) * 64 // 255 - 23
    least = (used - 12) * 32 // 255 - 23
    if num_bytes > len(pages.content):
        raise _Broken
    here = num_bytes
    if num_bytes > most:
        here = least + (num_bytes - least) % (used - 4)
        here = here if here <= most else least
    found = bytearray(page[at : at + here])
    following = int.from_bytes(page[at + here : at + here + 4], "big") if num_bytes > here else 0
    while len(found) < num_bytes:  # every page adds to it, so that a circle ends too
        more = pages.at(following)
        following = int.from_bytes(more[:4], "big")
        found += more[4 : 4 + num_bytes - len(found)]
    return bytes(found)


def _values(payload: bytes) -> Iterator[Any]:
    num_head, at = _varint(payload, 0)
    kinds = []
    while at < num_head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    at = num_head
    for kind in kinds:
        value, at = _value(payload, kind, at)
        yield value


def _value(payload: bytes, kind: int, at: int) -> tuple[Any, int]:
    if kind in (_ZERO, _ONE):
        return kind - _ZERO, at
    if kind == _FLOAT:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if _ONE < kind < _BLOB:
        raise _Broken
    end = at + (_INT_BYTES[kind] if kind < _FLOAT else (kind - _BLOB) // 2)
    part = payload[at:end]
    if len(part) < end - at:
        raise _Broken
    if kind < _FLOAT:
        return (int.from_bytes(part, "big", signed=True) if kind else None), end
    return (part.decode() if kind % 2 else part), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, all eight of a ninth, and where it ends."""
    value = 0
    for place in range(9):
        byte = data[at + place]
        if place == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    raise AssertionError("nine bytes end it")
