"""Which model a number is of."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import dovetail
from dovetail.plugins import plugins_digest

PHYSICS = ("workload", "hardware", "plan", "cost", "network", "schedule", "search")  # what numbers follow from
ALONE = ("evaluate.py", "units.py")
PLUGINS = ".plugins-"  # before the hash of what stands in them


def model_version() -> str:
    """The version, a hash of the source that predictions follow from, and one of the plugins: two alike agree.

    A plugin that was changed is another model: what was kept with it before is never mixed with.
    """
    own = plugins_digest()
    return f"{_source_version()}{PLUGINS}{own[:12]}" if own else _source_version()


@cache
def _source_version() -> str:
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for layer in PHYSICS:
        for file in sorted((root / layer).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    for name in ALONE:
        digest.update((root / name).read_bytes())
    return f"{dovetail.__version__}+{digest.hexdigest()[:12]}"
