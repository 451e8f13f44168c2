"""Chips by the short names people use."""

from __future__ import annotations

from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.entry import is_file_name
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip


def chip_named(name: str) -> Chip:
    """The chip of this name, the only one whose name begins with it, or the one in a file."""
    return load_chip(full_name(name))


def full_name(name: str, option: str = "--chip", offered: tuple[str, ...] = ()) -> str:
    """A catalogue name for `name`: itself, or the only one it begins; what is no such thing is left as it is.

    Where only `offered` ones will do, those are meant; if none begins so, any other, to be refused by its name.
    """
    if not name.strip():
        raise InvalidInput(f"{option} is missing; name one that `dovetail chips` lists, such as h200")
    plain = name.strip().lower().replace("_", "-")
    if is_file_name(name) or name in chips:
        return name
    if plain in chips:
        return plain
    begun = [known for known in chips.names() if known.startswith(plain)]
    begun = [known for known in begun if known.startswith(f"{plain}-")] or begun  # h20 is no h200
    if offered:
        begun = [known for known in begun if known in offered] or begun[:1]
    if len(begun) > 1:
        raise InvalidInput(f"{name!r} begins the names of several chips; specify which: {', '.join(begun)}", option)
    return begun[0] if begun else name
