"""Text in an address: pressed small, and no larger than it may be when it is let out again."""

from __future__ import annotations

import base64
import binascii
import zlib

from dovetail.errors import InvalidInput
from dovetail.files.uploaded import LIMIT_BYTES

MOST_IN_ADDRESS = 30_000  # characters of a query; servers and proxies of today carry requests of 32 KB and more
LEVEL = 9


def packed(text: str) -> str:
    """`text` in the letters, digits, - and _ that may stand in an address."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), LEVEL)).decode().rstrip("=")


def unpacked(word: str) -> str:
    """The text that `packed` made `word` of; raises where it is something else, or would be too large."""
    try:
        pressed = base64.b64decode(word.encode("ascii") + b"=" * (-len(word) % 4), altchars=b"-_", validate=True)
        opener = zlib.decompressobj()
        data = opener.decompress(pressed, LIMIT_BYTES + 1)
        if len(data) > LIMIT_BYTES:
            raise InvalidInput(f"text in an address has at most {LIMIT_BYTES:,} bytes; got more")
        if not opener.eof:
            raise ValueError
        return data.decode()
    except (ValueError, binascii.Error, zlib.error):
        raise InvalidInput("the text in this address is cut short or changed; open it as it was copied") from None
