"""Collectives over a group that may reach into several network dimensions, one file each.

Each is `(payload_bytes, group, link_frac) -> seconds`, with `payload_bytes` the whole tensor as one rank sees it; an
array of payloads gives an array of times.
"""

from __future__ import annotations

from collections.abc import Callable

from dovetail.hardware.topology import Group
from dovetail.registry import Registry
from dovetail.units import Amount

Collective = Callable[[Amount, Group, float], Amount]
collectives: Registry[Collective] = Registry("collective", __name__)
