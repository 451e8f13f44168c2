"""What can go wrong, by whose doing.

`InvalidInput`: the user gave something impossible. `NotModelled`: the physics for it is not written.
A design that does not fit is neither: it is an answer, see `parallel.memory`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_CHARACTERS = 800  # of a message, and of its place
MAX_SHOWN = 60  # of a value in a message


class DovetailError(Exception):
    """Base of all errors whose message is one line for the user; long values in it are shortened."""

    def __init__(self, message: str, where: str = "") -> None:
        self.message, self.where = cut_short(message), cut_short(where)
        super().__init__(self.message)

    def at(self, where: str) -> DovetailError:
        """The same error, placed: `where` is put before what is already known of its place."""
        joined = ".".join(part for part in (where, self.where) if part)
        return type(self)(self.message, joined)

    def __str__(self) -> str:
        return f"{self.message} ({self.where})" if self.where else self.message


class InvalidInput(DovetailError):
    """The rule, what we got, and the way out."""


class NotModelled(DovetailError):
    """An operator, dtype, topology or option that is not modelled; nothing is free by omission."""


def cut_short(text: str) -> str:
    """`text` without its middle where it is too long to be read: rules stand at the beginning, ways out at the end."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS // 2]} ... {text[-MAX_CHARACTERS // 4 :]}"


def shown(value: object) -> str:
    """A value as a message quotes it: on one line, cut short where it is long, whatever was given."""
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__} of {len(value):,}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"a number of {value.bit_length():,} bits"  # Python refuses to write the longest ones
    if isinstance(value, str):
        cut = value if len(value) <= MAX_SHOWN else f"{value[: MAX_SHOWN - 3]}..."
        return repr(cut) if cut.isprintable() else ascii(cut)
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def require_positive(value: object, *labels: str) -> None:
    """Raises unless each named field of `value` is at least 1."""
    for label in labels:
        if getattr(value, label) < 1:
            raise InvalidInput(f"{label} must be at least 1; got {getattr(value, label)}", label)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """'; did you mean x?' for the known names closest to `name`, or the whole list when none is close."""
    options = sorted(known)
    folded = {option.casefold(): option for option in options}
    word = str(name)[:100].casefold()
    begun = [option for option in folded if len(word) > 1 and option.startswith(word)]
    close = difflib.get_close_matches(word, list(folded), n=3, cutoff=0.6) or begun[:3]
    close = sorted(close, key=lambda option: option not in begun)  # what begins so first
    if close:
        return f"; did you mean {' or '.join(folded[c] for c in close)}?"
    listed = ", ".join(options[:12]) + (f" and {len(options) - 12} more" if len(options) > 12 else "")
    return f"; known: {listed}" if options else ""
