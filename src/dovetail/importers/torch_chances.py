"""Random numbers while a module runs: the same in every run, and afterwards as if none had been drawn."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

SEED = 0


@contextmanager
def settled_chances() -> Iterator[list[str]]:
    """Seeds the generators of Python, NumPy and PyTorch; lists, at its end, whose numbers on the host were drawn."""
    drawn: list[str] = []
    numpy = sys.modules.get("numpy")
    before = random.getstate(), numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(SEED)
            random.seed(SEED)
            if numpy:
                numpy.random.seed(SEED)
            fresh = random.getstate(), _position(numpy)
            yield drawn
            if random.getstate() != fresh[0]:
                drawn.append("Python")
            if _position(numpy) != fresh[1]:
                drawn.append("NumPy")
    finally:
        random.setstate(before[0])
        if numpy:
            numpy.random.set_state(before[1])


def _position(numpy: object) -> object:
    """How far NumPy's generator is, and what it holds."""
    if numpy is None:
        return None
    kind, keys, place, *rest = numpy.random.get_state()  # type: ignore[attr-defined]
    return kind, keys.tobytes(), place, tuple(rest)
