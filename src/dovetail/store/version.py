"""Which model a number is of: the physics that rows of a store follow from, and the source that is running.

Rows are kept by physics. `HISTORY` counts every change of numbers since 0.1, with the kinds of study whose rows it
moved; text that changed and numbers that did not are no other physics, so a search goes on through renames. The
version of the source is for what must be the same code to the letter: workers of a cluster, and where a page came from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dovetail
from dovetail.plugins import plugins_digest

SOURCES = ("workload", "hardware", "parallel", "cost", "comm", "step", "opsched", "search")  # what numbers follow from
ALONE = ("evaluate.py", "units.py")
PLUGINS = ".plugins-"  # before the hash of what stands in them
PHYSICS = "physics-"  # before the number, in what a study is kept under
KINDS = ("mine", "codesign", "pareto")  # of studies; what follows a comma says how


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Numbers that moved: an entry under Numbers of CHANGELOG.md, which names it as "physics `version`"."""

    version: int
    what: str  # in a few words, shown where a search starts again because of it
    moves: tuple[str, ...] = KINDS  # the kinds of study whose rows are others now; none where only other answers moved


# The last is what this Dovetail computes. `tests/golden/test_physics.py` demands an entry when recorded numbers move.
HISTORY: tuple[Change, ...] = (
    Change(version=1, what="the physics of 0.1"),
    Change(version=2, what="plans leave 4 % of the memory that PyTorch sees free"),
    Change(version=3, what="template TPUs have the vector lanes of TPU v2 and v4", moves=()),
    Change(version=4, what="messages pay the latency of every link that they pass"),
    Change(version=5, what="a product that partly runs again takes the time of that part"),
    Change(version=6, what="HFU counts an update once per step", moves=()),
    Change(version=7, what="each layer of a pattern has its own window", moves=()),
    Change(version=8, what="products and attention are mapped onto arrays, and TPUs are fitted on whole steps"),
    Change(version=9, what="area and power by level"),
    Change(version=10, what="ASTRA-sim's mode makes one chunk more where splits leave a rest", moves=()),
    Change(version=11, what="collectives of GPU clusters take what NCCL and RCCL take"),
    Change(version=12, what="sends of a pipeline take what NCCL and RCCL take, and PAT runs with one rank a node"),
    Change(version=13, what="vector work and attention on arrays by instructions, registers and memories"),
    Change(version=14, what="misaligned rows slow a batched product's main loop alone", moves=()),
    Change(version=15, what="waits for communication raise the clock only as far as the slowest device waits too"),
    Change(version=16, what="fp32 products and rows by the kernels of the vector lanes", moves=()),
    Change(version=17, what="MFU counts attention causally", moves=()),
    Change(version=18, what="plans fit with 95 % by our error of memory", moves=()),
    Change(
        version=19,
        what="links between nodes, copies of sharding, scaling recipes, dispatchers, energy by operands",
    ),
    Change(version=20, what="bounds of collectives count what must leave a node; Ascend 910B at 1.8 GHz", moves=()),
)
# What studies were kept under before they were by physics: releases, and the last state of their source.
BY_SOURCE = {"0.1.0+e1a7acc25bdb": 1, "0.1.0+a3ace3156e19": 1}


def model_version() -> str:
    """The release, a hash of the model's source and one of the plugins: equal versions predict the same.

    A plugin that was changed is another model.
    """
    return f"{_source_version()}{_plugins_suffix()}"


def physics_version(kind: str = "") -> int:
    """The number of the last change that moved rows of this kind of study; of any numbers, where no kind is given."""
    return _moved_by(kind, HISTORY[-1].version)


def kept_under(kind: str) -> str:
    """What a study of this kind is kept under: its physics, and a hash of the plugins.

    A plugin that was changed is other physics: what was kept with it before is never mixed with.
    """
    return f"{PHYSICS}{physics_version(kind)}{_plugins_suffix()}"


def physics_of(kept: str) -> int | None:
    """The physics that a study was kept under; none where that is not known."""
    base, _, _ = kept.partition(PLUGINS)
    if base in BY_SOURCE:
        return BY_SOURCE[base]
    number = base.removeprefix(PHYSICS)
    return int(number) if base.startswith(PHYSICS) and number.isdecimal() and len(number) < 10 else None


def is_same_physics(kept: str, kind: str) -> bool:
    """Whether what was kept under `kept` is what this Dovetail, with its plugins, would compute."""
    return not physics_changes(kept, kind)


def physics_changes(kept: str, kind: str) -> tuple[str, ...]:
    """Why numbers kept under `kept` are not those of today, in a few words each; none where they are."""
    found, now = physics_of(kept), HISTORY[-1].version
    if found is None:
        reasons = [f"{kept.partition(PLUGINS)[0]} is no version whose physics is known here"]
    elif found > now:
        reasons = [f"physics {found} is of a later Dovetail; this one has physics {now}"]
    else:
        since = [change for change in HISTORY if change.version > found and _moves(change, kind)]
        reasons = [f"physics {change.version}: {change.what}" for change in since]
    if kept[len(kept.partition(PLUGINS)[0]) :] != _plugins_suffix():
        reasons.append("it was kept with other plugins")
    return tuple(reasons)


def _moved_by(kind: str, most: int) -> int:
    return max(change.version for change in HISTORY if change.version <= most and (not kind or _moves(change, kind)))


def _moves(change: Change, kind: str) -> bool:
    """Kinds that this table does not know are moved by everything."""
    known = kind.partition(",")[0]
    return known not in KINDS or known in change.moves


def _plugins_suffix() -> str:
    own = plugins_digest()
    return f"{PLUGINS}{own[:12]}" if own else ""


@cache
def _source_version() -> str:
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for layer in SOURCES:
        for file in sorted((root / layer).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    for name in ALONE:
        digest.update((root / name).read_bytes())
    return f"{dovetail.__version__}+{digest.hexdigest()[:12]}"
