"""Speeds timed and gaps proven now, beside the gaps that ship: what `dovetail validate --all` has beyond accuracy."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from statistics import median

from dovetail.accuracy.appraisal import NOW, Appraisal, Gap, Machine, Speed, Untried, gap_over
from dovetail.accuracy.peer_speeds import peers_of
from dovetail.api.search_context import SearchContext
from dovetail.api.timed import costing, designing, networking, planning
from dovetail.api.timed.operation import Operation
from dovetail.api.timed.proofs import PROOFS, Proof
from dovetail.files.gaps import load_gaps

OPERATIONS = (*costing.OPERATIONS, *planning.OPERATIONS, *networking.OPERATIONS, *designing.OPERATIONS)
EXTRAS = {"numba": "Numba", "ortools": "OR-Tools"}

Clock = Callable[[], float]
Has = Callable[[str], bool]
Needy = Operation | Proof


def is_installed(library: str) -> bool:
    return find_spec(library) is not None


def machine() -> Machine:
    """This one, today."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return Machine(
        num_cores=len(cores),
        processor=platform.machine(),
        python=platform.python_version(),
        numpy=version("numpy"),
        date=datetime.now(UTC).date().isoformat(),
    )


def timed(operation: Operation, clock: Clock = time.process_time) -> Speed:
    """The median of several runs of a warm operation, in CPU seconds of this process."""
    run = operation.made()
    per_item_s = []
    for _ in range(operation.num_runs):
        began_s = clock()
        num_done = run()
        per_item_s.append((clock() - began_s) / num_done)
    return Speed(
        operation=operation.name,
        what=operation.what,
        item=operation.item,
        per_item_s=median(per_item_s),
        num_runs=operation.num_runs,
        peers=peers_of(operation.name),
    )


def proven(proof: Proof) -> Gap:
    return gap_over(proof.what, proof.gaps_frac(), NOW)


def appraised(
    context: SearchContext,
    operations: Sequence[Operation] = OPERATIONS,
    proofs: Sequence[Proof] = PROOFS,
    *,
    clock: Clock = time.process_time,
    has: Has = is_installed,
) -> Appraisal:
    """All of `operations` and `proofs` but those whose library is not here, which are named."""
    needed: list[Needy] = [*operations, *proofs]
    speeds = [
        timed(operation, clock)
        for operation in context.through("timing operations", [one for one in operations if _is_here(one, has)])
    ]
    gaps = [proven(proof) for proof in context.through("proving gaps", [one for one in proofs if _is_here(one, has)])]
    return Appraisal(
        machine=machine(),
        speeds=tuple(speeds),
        gaps=(*gaps, *load_gaps()),
        not_measured=tuple(_not_measured(one) for one in needed if not _is_here(one, has)),
    )


def _is_here(one: Needy, has: Has) -> bool:
    return not one.needs or has(one.needs)


def _not_measured(one: Needy) -> Untried:
    return Untried(what=one.what, why=f"{EXTRAS[one.needs]} is not installed; pip install 'dovetail-codesign[mine]'")
