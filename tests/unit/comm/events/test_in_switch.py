"""Sums in a switch: who sends up to it, and who gets what comes down."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.events.schedules import Ask, algorithms


def sent(collective: str, root: int) -> tuple[list[int], ...]:
    """Ranks that send up to the switch, and ranks that it sends down to."""
    ((up, down),) = algorithms["in-switch"](Ask(collective=collective, num_ranks=6, payload_bytes=1e6, root=root))
    listed = [np.asarray(level.rounds[0].listed) for level in (up, down)]
    return tuple(np.flatnonzero(ranks >= 0).tolist() for ranks in listed)


@pytest.mark.parametrize("root", [0, 4])
def test_only_the_root_sends_a_broadcast_up_and_all_get_it(root):
    assert sent("broadcast", root) == ([root], [*range(6)])


@pytest.mark.parametrize("root", [0, 4])
def test_only_the_root_gets_what_a_reduce_sums(root):
    assert sent("reduce", root) == ([*range(6)], [root])
