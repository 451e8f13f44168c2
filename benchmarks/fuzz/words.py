"""What is typed after `dovetail`, changed word by word. No seed names a file to write, so nothing is written."""

from __future__ import annotations

from random import Random

from benchmarks.fuzz.odd import odd_number, odd_word
from benchmarks.fuzz.texts import changed_bytes

MOST_CHARACTERS = 1000  # a system has a limit of its own to what may be typed


def changed_words(arguments: tuple[str, ...], rng: Random) -> tuple[str, ...]:
    """One word after the command's name is another, doubled, dropped or moved; no word can hold a NUL."""
    words = list(arguments)
    at = rng.randrange(1, len(words))
    kind = rng.randrange(7)
    if kind < 2:
        words[at] = _joined(words[at], str(odd_number(rng)) if rng.random() < 0.5 else odd_word(rng), rng)
    elif kind < 4:
        words[at] = changed_bytes(words[at].encode("utf-8", "replace"), (), rng).decode("utf-8", "replace")
    elif kind == 4:
        del words[at]
    elif kind == 5:
        words.insert(at, words[at])
    else:
        other = rng.randrange(1, len(words))
        words[at], words[other] = words[other], words[at]
    return tuple(word.replace("\0", "")[:MOST_CHARACTERS] for word in words)


def _joined(word: str, odd: str, rng: Random) -> str:
    """`odd` in place of a word, or of a part of it such as the number before a unit."""
    marks = [at for at, character in enumerate(word) if character in "@:,x=.-;"]
    if not marks or rng.random() < 0.4:
        return odd
    at = rng.choice(marks)
    return word[: at + 1] + odd if rng.random() < 0.5 else odd + word[at:]
