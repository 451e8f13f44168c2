"""Collectives over a group that may reach into several network dimensions, one file each.

Each is `(payload_bytes, group, link_frac) -> seconds`. The payload is the larger of a rank's two buffers, as nccl-tests
count size: of an all-gather what each rank ends with, of a reduce-scatter what it begins with. An array of payloads
gives an array of times. A plugin's collective is used where it is named (`dovetail network`, closed form); training
steps use the built-in ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Group, Span
from dovetail.registry import Registry, functions
from dovetail.units import GIGA, MEBI, MICRO, Amount

Collective = Callable[[Amount, Group, float], Amount]
_SAMPLE_LINK = Link(bandwidth_bytes_per_s=GIGA, latency_s=MICRO)
_SAMPLE: Group = (
    Span(dimension=Dimension(name="sample", kind="switch", num_devices=4, link=_SAMPLE_LINK), num_ranks=4),
)


def _check(name: str, time_s: Collective) -> None:
    """Raises where a plugin's function gives no times: as many as there are payloads, none of them negative."""
    functions("collective")(name, time_s)
    checked_times_s(name, np.array([0.0, MEBI]), time_s(np.array([0.0, MEBI]), _SAMPLE, 1.0))


def checked_times_s(name: str, payload_bytes: Amount, times_s: Amount) -> Amount:
    """`times_s`, once they are found to be times of `payload_bytes`."""
    try:
        found = np.broadcast_to(np.asarray(times_s, dtype=np.float64), np.shape(payload_bytes))
    except (TypeError, ValueError):
        shape = np.shape(payload_bytes) or "one number"
        raise InvalidInput(f"the collective {name!r} must give seconds for {shape}; got {times_s!r:.60}") from None
    if not bool((np.isfinite(found) & (found >= 0)).all()):
        raise InvalidInput(f"the collective {name!r} must give seconds of 0 or more; got {np.min(found):g} s")
    return times_s


collectives: Registry[Collective] = Registry("collective", __name__, check=_check)
