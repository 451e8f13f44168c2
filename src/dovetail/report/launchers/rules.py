"""Rules that several frameworks have for plans, as columns: which of some plans keep each of them."""

from __future__ import annotations

import numpy as np

from dovetail.parallel.plan import AXES, Plans
from dovetail.workload.graph import BoolArray
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload


def decoder_shape(workload: Workload) -> Transformer | None:
    """The decoder's shape, where the model is one that launchers can write."""
    shape = workload.model.architecture
    return shape if isinstance(shape, Transformer) else None


def has_order(plans: Plans, order: tuple[str, ...] = AXES) -> BoolArray:
    """Whether the axes of more than one rank lie in this order, innermost first."""
    degrees = {
        "tp": plans.tensor_parallel,
        "cp": plans.context_parallel,
        "dp": plans.data_parallel,
        "pp": plans.pipeline_parallel,
    }
    result = np.zeros(len(plans), dtype=bool)
    for index, own in enumerate(plans.axis_orders):
        rows = plans.axis_order == index
        is_kept = np.ones(len(plans), dtype=bool)
        for place, inner in enumerate(own):
            for outer in own[place + 1 :]:
                if order.index(inner) > order.index(outer):
                    is_kept &= (degrees[inner] == 1) | (degrees[outer] == 1)
        result |= rows & is_kept
    return result


def is_schedule(plans: Plans, *names: str) -> BoolArray:
    """Whether plans of several stages run one of these schedules; of one stage there is nothing to choose."""
    named = np.array([name in names for name in plans.schedules])
    return np.asarray(named[plans.schedule] | (plans.pipeline_parallel == 1))


def overlaps_or_alone(plans: Plans, name: str, degree: str, *, is_on: bool) -> BoolArray:
    """Whether a communication is beside compute, or not, as `is_on` has it, where there are ranks to talk to."""
    return np.asarray((getattr(plans, degree) == 1) | (plans.overlaps(name) == is_on))


def num_microbatches(plans: Plans, workload: Workload) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Microbatches of each plan in a step."""
    return workload.global_batch // (plans.data_parallel * plans.microbatch)
