"""Counts as they were typed on the command line."""

from __future__ import annotations

from dovetail.api.arguments import count
from dovetail.errors import InvalidInput
from dovetail.units import count_of

__all__ = ["count", "num_tokens"]


def num_tokens(option: str, text: str) -> float:
    """The many tokens that `option` was given, as in 15T; 0 where it was not."""
    if not text:
        return 0.0
    try:
        return count_of(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, option) from None
