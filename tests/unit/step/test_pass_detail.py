"""A pass laid out piece by piece: sums and places by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.cost.cost import Cost
from dovetail.step.pass_detail import (
    COPIES,
    HANDED,
    HOST,
    WAITS,
    Spell,
    _laid,
    _PassItem,
    _Repeat,
    _split,
    _stretched,
    _waits,
)
from dovetail.step.work import HELD_FRAC, Work

A = _PassItem(name="a", track="tensor units", time_s=2.0, limit="hbm")
B = _PassItem(name="b", track="vector units", time_s=1.0, limit="launch", is_weight=True)
SUM = _PassItem(name="sum", track="tp", axis="tp", time_s=0.5)
SENT = _PassItem(name="sent", track="dp", axis="dp", time_s=1.5)
LAYER = _Repeat(block="layer", pieces=(A, SUM, B), beside=(SENT,))
HEAD = _Repeat(block="head", pieces=(replace(A, time_s=1.0),), beside=(SENT,))


def placed(spells: tuple[Spell, ...]) -> list[tuple[str, str, Any, Any]]:
    return [(one.name, one.track, pytest.approx(one.begin_s), pytest.approx(one.end_s)) for one in spells]


def test_pieces_follow_each_other_and_waits_go_to_blocks_by_what_they_compute():
    """A layer computes 3 of 4: three quarters of a wait of 2 are its own. Handing on ends the pass."""
    spells = _laid([LAYER, HEAD], 7.0, {HOST: 2.0, HANDED: 0.5})
    assert placed(spells) == [
        ("a", "tensor units", 0.0, 2.0),
        ("wait for sum", WAITS, 2.0, 2.5),
        ("sum", "tp", 2.0, 2.5),
        ("b", "vector units", 2.5, 3.5),
        (HOST, WAITS, 3.5, 5.0),
        ("a", "tensor units", 5.0, 6.0),
        (HOST, WAITS, 6.0, 6.5),
        (HANDED, WAITS, 6.5, 7.0),
        ("sent", "dp beside compute", 0.0, 1.5),
        ("sent", "dp beside compute", 5.0, 6.5),
    ]
    assert [one.block for one in spells] == ["layer"] * 5 + ["head"] * 2 + ["", "layer", "head"]
    assert [one.limit for one in spells if one.limit] == ["hbm", "launch", "hbm"]


def test_what_is_beside_a_pass_begins_with_its_block_or_so_that_all_is_over_in_time():
    late = _laid([LAYER, HEAD], 5.0, {})
    assert placed(late)[-2:] == [("sent", "dp beside compute", 0.0, 1.5), ("sent", "dp beside compute", 3.5, 5.0)]
    tight = _laid([LAYER, HEAD], 2.0, {})  # more than fits: one after the other from the start
    assert placed(tight)[-2:] == [("sent", "dp beside compute", 0.0, 1.5), ("sent", "dp beside compute", 1.5, 3.0)]


def test_blocks_that_compute_nothing_share_waits_evenly():
    bare = _Repeat(block="x", pieces=(), beside=())
    assert placed(_laid([bare, bare], 3.0, {HOST: 3.0})) == [(HOST, WAITS, 0.0, 1.5), (HOST, WAITS, 1.5, 3.0)]


def test_a_direction_waits_for_what_is_exposed_the_host_copies_and_handing_on():
    work = Work(
        cost=Cost(compute_s=3.5, host_s=6.0),
        blocking_s=(0.5, 0.0, 0.0, 0.0, 0.0),
        overlappable_s=(0.0, 0.0, 0.0, 4.0, 0.0),
    )
    spread = work.comm[3].exposed_s
    assert work.host_wait_s == pytest.approx(6.0 - 3.5 - 0.5)
    assert spread == pytest.approx(HELD_FRAC * (4.0 - 2.0))
    found = _waits(work, [replace(LAYER, beside=())], work.time_s + 1.0, 0.25)
    assert found == pytest.approx({"dp, not hidden": spread, HOST: 3.5 + 2.0 - 3.0, COPIES: 1.0 - 0.25, HANDED: 0.25})
    assert sum(found.values()) + LAYER.compute_s + SUM.time_s == pytest.approx(work.time_s + 1.0)


def test_halves_of_a_backward_pass_have_their_operators_and_share_what_is_waited_for():
    found = _split([LAYER, HEAD], 8.0, 3.0)
    rest = "communication and the host"
    own = {kind: [row for row in placed(spells) if "beside" not in row[1]] for kind, spells in found.items()}
    assert own["input"] == [
        ("a", "tensor units", 0.0, 2.0),
        (rest, WAITS, 2.0, 2.0 + 2.0 * 2 / 3),
        ("a", "tensor units", 2.0 + 2.0 * 2 / 3, 3.0 + 2.0 * 2 / 3),
        (rest, WAITS, 3.0 + 2.0 * 2 / 3, 5.0),
    ]
    assert own["weight"] == [("b", "vector units", 0.0, 1.0), (rest, WAITS, 1.0, 3.0), (rest, WAITS, 3.0, 3.0)]
    beside = {kind: [row[0] for row in placed(spells) if "beside" in row[1]] for kind, spells in found.items()}
    assert beside == {"input": ["sum", "sent", "sent"], "weight": []}


def test_operators_are_stretched_to_what_weight_gradients_take_and_collectives_are_not():
    own_s = sum(piece.time_s for one in (LAYER, HEAD) for piece in one.pieces if not (piece.axis or piece.is_weight))
    [layer, head] = _stretched([LAYER, HEAD], 2 * own_s, 1.5)
    assert [piece.time_s for piece in layer.pieces] == [2 * LAYER.pieces[0].time_s, 0.5, 1.5]
    assert [piece.time_s for piece in head.pieces] == [2 * HEAD.pieces[0].time_s]
    assert _stretched([HEAD], HEAD.pieces[0].time_s, 0.0) == [HEAD]
