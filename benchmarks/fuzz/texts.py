"""Bytes and lines changed without a thought of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

TOKENS = (
    b"{", b"}", b"[", b"]", b":", b",", b"-", b"- ", b"? ", b"| ", b"> ", b"&a ", b"*a", b"<<: *a",
    b"!!python/object:x ", b"!!binary ", b"!!set ", b"%YAML 1.3\n", b"---\n", b"...\n", b"#", b'"', b"'", b"\t",
    b"\r", b"\r\n", b"\n", b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc2\x85",
    b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"NaN", b"Infinity", b"1e999", b"-", b"0x", b"0o7", b"1:30:00",
    b"2001-01-01", b"~", b"null", b"true", b"{" * 2000, b"[" * 2000, b"- " * 2000, b"9" * 4400, b"a: &a [*a]\n",
    b"\\u0000", b"\\ud800", b"\xed\xb2\x80", b"=", b";", b"1e5", b"@",
)  # fmt: skip
MOST_CUT = 64


def changed_bytes(data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """One change: a bit, a byte, a piece cut out, doubled, moved or from another file, a token, or the rest cut."""
    if not data:
        return rng.choice(TOKENS)
    at, length = rng.randrange(len(data)), rng.randint(1, MOST_CUT)
    piece = data[at : at + length]
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[at + length :]
    if kind == 3:
        return data[:at] + piece * rng.choice((2, 2, 3, 50)) + data[at + length :]
    if kind == 4:
        return data[:at] + rng.choice(TOKENS) + data[at:]
    if kind == 5:
        return data[:at]
    if kind == 6:
        to = rng.randrange(len(data))
        return data[:to] + piece + data[to:]
    if kind == 7:
        return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at:]
    other = rng.choice(others) if others else data
    return data[:at] + other[rng.randrange(len(other) + 1) :]


def changed_lines(data: bytes, rng: Random) -> bytes:
    """One line dropped, doubled, moved, moved in, or joined with the next."""
    lines = data.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif kind == 3:
        lines[at] = b" " * rng.randint(1, 6) + lines[at]
    else:
        lines[at : at + 2] = [b"".join(lines[at : at + 2])]
    return b"\n".join(lines)
