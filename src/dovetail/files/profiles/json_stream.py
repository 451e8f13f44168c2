"""A large JSON object read piece by piece: its members, and of one that is a list its items, one at a time.

What is held is one piece of the text and one value, so a file of hundreds of megabytes takes a few.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from dovetail.errors import InvalidInput
from dovetail.units import MEBI, format_bytes

CHUNK_BYTES = int(MEBI)
MAX_VALUE_CHARACTERS = 8 * int(MEBI)  # of one member or item
_SPACE = re.compile(r"[ \t\n\r]*")
_NOT_JSON = "this is no whole JSON file"


def members(stream: BinaryIO, listed: str, limit_bytes: int) -> Iterator[tuple[str, Any]]:
    """(key, value) of every member of the object in `stream`, in its order.

    Of the list named `listed` there is a pair for every item, all with that key; of an empty one, itself. Raises
    `InvalidInput` where the text is no JSON, ends early, or is longer than `limit_bytes`.
    """
    text = _Text(stream, limit_bytes)
    text.expect("{", "a trace is a JSON object")
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise InvalidInput(f"{_NOT_JSON}: a key is no text")
        text.expect(":", _NOT_JSON)
        if key == listed and text.peek() == "[":
            is_empty = True
            for item in _items(text):
                yield key, item
                is_empty = False
            if is_empty:
                yield key, []
        else:
            yield key, text.value()
        if text.next_of(",}") == "}":
            return


def _items(text: _Text) -> Iterator[Any]:
    text.expect("[", _NOT_JSON)
    if text.peek() == "]":
        text.expect("]", _NOT_JSON)
        return
    while True:
        yield text.value()
        if text.next_of(",]") == "]":
            return


class _Text:
    """Text that comes piece by piece, and where we are in it."""

    def __init__(self, stream: BinaryIO, limit_bytes: int) -> None:
        self._stream, self._limit_bytes = stream, limit_bytes
        self._left, self._num_bytes = "", 0
        self._at = 0
        self._half = b""  # of a character whose rest comes with the next piece
        self._decoder = json.JSONDecoder(parse_constant=_refused_constant)

    def peek(self) -> str:
        """The next character that is no space."""
        while True:
            self._at = _SPACE.match(self._left, self._at).end()  # type: ignore[union-attr]  # it matches nothing too
            if self._at < len(self._left):
                return self._left[self._at]
            if not self._more():
                raise InvalidInput(f"{_NOT_JSON}: it ends early")

    def expect(self, character: str, message: str) -> None:
        if self.peek() != character:
            raise InvalidInput(f"{message}; got {self._left[self._at : self._at + 20]!r}")
        self._at += 1

    def next_of(self, characters: str) -> str:
        found = self.peek()
        if found not in characters:
            raise InvalidInput(f"{_NOT_JSON}: {found!r} stands where {' or '.join(characters)} belongs")
        self._at += 1
        return found

    def value(self) -> Any:
        """The value that begins here. A number at the end of a piece may go on in the next."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._left, self._at)
                if end < len(self._left) or not self._more():
                    self._at = end
                    return found
            except json.JSONDecodeError as error:
                if len(self._left) - self._at > MAX_VALUE_CHARACTERS:
                    raise InvalidInput(f"{_NOT_JSON}: {error.msg.lower()}") from None
                if not self._more():
                    raise InvalidInput(f"{_NOT_JSON}: {error.msg.lower()}, or it ends early") from None
            except (RecursionError, ValueError):
                raise InvalidInput(f"{_NOT_JSON}: a value is nested too deep or has too many digits") from None

    def _more(self) -> bool:
        """Whether there was a further piece; what is behind us is dropped."""
        piece = self._stream.read(CHUNK_BYTES)
        self._num_bytes += len(piece)
        if self._num_bytes > self._limit_bytes:
            limit = format_bytes(self._limit_bytes, 0)
            raise InvalidInput(f"a trace has at most {limit} of text; profile fewer steps, or leave out with_stack")
        if not piece:
            if self._half:
                raise InvalidInput("a trace must be UTF-8 text, and this one is not")
            return False
        self._left, self._at = self._left[self._at :] + self._decoded(self._half + piece), 0
        return True

    def _decoded(self, data: bytes) -> str:
        try:
            self._half = b""
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(data) - 3:
                raise InvalidInput("a trace must be UTF-8 text, and this one is not") from None
            self._half = data[error.start :]
            return data[: error.start].decode("utf-8")


def _refused_constant(word: str) -> Any:
    raise InvalidInput(f"{_NOT_JSON}: {word} is no number")
