"""What needs alone do not say: who cannot run beside whom, as resources that follow from the others.

An operator that takes nearly all of the HBM bandwidth runs beside none that needs more than the rest of it, though
cores are free. Counted as holding all cores of a kind, it makes bounds and propagation see that. Feasible schedules
keep these further limits anyway, so they cut off nothing.
"""

from __future__ import annotations

import numpy as np

from dovetail.opsched.problem import HBM, TENSOR, VECTOR, CoreProblem
from dovetail.workload.graph import IntArray

QUANTILES = (0.0, 0.1, 0.3, 0.6)  # of the HBM needs of the modes on a kind of cores: from which need on they count


def wider_needs(problem: CoreProblem) -> tuple[IntArray, IntArray]:
    """Needs and capacities with columns for cores that are held or blocked.

    For a need h of at most half the HBM: modes on the cores that need h or more count as they are, and modes of any
    kind that need more than all but h count as all cores. One of the latter leaves less than h, so it runs alone among
    all that count; the others share the cores.
    """
    need, stock = problem.modes.need, problem.stock
    hbm, whole = need[:, HBM], int(stock[HBM])
    columns, sizes = [need], [*stock.tolist()]
    for kind in (TENSOR, VECTOR):
        users = hbm[(need[:, kind] > 0) & (problem.modes.beats > 0) & (hbm > 0)]
        levels = {int(level) for level in np.quantile(users, QUANTILES, method="lower")} if len(users) else set()
        for least in sorted(level for level in levels if 2 * level <= whole):
            blocked = hbm > whole - least
            if bool(blocked.any()):
                counted = np.where(blocked, stock[kind], np.where(hbm >= least, need[:, kind], 0))
                columns.append(counted[:, None])
                sizes.append(int(stock[kind]))
    return np.ascontiguousarray(np.concatenate(columns, axis=1)), np.array(sizes, dtype=np.int64)
