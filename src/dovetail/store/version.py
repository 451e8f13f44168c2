"""Which model a number is of."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import dovetail

PHYSICS = ("workload", "hardware", "plan", "cost", "network", "schedule", "search")  # what numbers follow from
ALONE = ("evaluate.py", "units.py")


@cache
def model_version() -> str:
    """The version, and a hash of the source that predictions follow from: two with the same one agree."""
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for layer in PHYSICS:
        for file in sorted((root / layer).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    for name in ALONE:
        digest.update((root / name).read_bytes())
    return f"{dovetail.__version__}+{digest.hexdigest()[:12]}"
