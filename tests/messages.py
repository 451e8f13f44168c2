"""What a message must hold, whatever the words between: names, numbers and the way out, in their order."""

from __future__ import annotations


def holds(text: str, *fragments: str) -> bool:
    """Whether `text` has every one of `fragments`, each after the one before; line ends count as blanks."""
    rest = " ".join(text.split())
    for fragment in fragments:
        _, found, rest = rest.partition(fragment)
        if not found:
            return False
    return True
