"""What a question is known by: a digest of everything that its answers follow from, and of nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np

from dovetail.search.mining.score import Question


def question_facts(question: Question, metric: str) -> dict[str, Any]:
    """Plain data that is the same for the same question, whichever algorithm answers it and in whatever order."""
    return {
        "jobs": [{"name": job.name, "digest": digest_of(job)} for job in question.jobs],
        "base": {"name": question.base.name, "digest": digest_of(question.base)},
        "space": {knob.name: list(knob.values) for knob in question.space.knobs},
        "limits": asdict(question.limits),
        "metric": metric,
        "reference_losses": list(question.reference_losses),
    }


def digest_of(value: object) -> str:
    """A hash of every field of `value`, all the way down; arrays by their bytes, numbers by all of their digits."""
    digest = hashlib.sha256()
    _feed(digest, value, {})
    return digest.hexdigest()


def _feed(digest: Any, value: object, seen: dict[int, int]) -> None:
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        if id(value) in seen:  # graphs that stages share; objects live as long as what is hashed
            digest.update(f"again {seen[id(value)]} ".encode())
            return
        seen[id(value)] = len(seen)
        digest.update(f"{type(value).__name__}( ".encode())
        for field in fields(value):
            digest.update(f"{field.name} ".encode())
            _feed(digest, getattr(value, field.name), seen)
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)} of ".encode())
        for item in value:
            _feed(digest, item, seen)
    elif isinstance(value, dict):
        _feed(digest, sorted(value.items()), seen)
    else:
        assert value is None or isinstance(value, str | int | float | np.generic), f"no digest of {type(value)}"
        digest.update(f"{type(value).__name__} {value!r} ".encode())
