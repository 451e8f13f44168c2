"""Collectives nested over the sides of a network in any order, and Themis: another order for every chunk."""

from __future__ import annotations

from itertools import permutations

from dovetail.comm.torus import Phase, Torus, Work, all_to_all_phases, link_s_per_byte
from dovetail.errors import NotModelled

NUM_CHUNKS = 64  # Themis (Rashidi et al., ISCA 2022) splits a collective into this many


def nested_phases(torus: Torus, work: Work, order: tuple[int, ...] = ()) -> tuple[Phase, ...]:
    """Phases of `work` over all sides, in `order` (as they stand, if none is given): each halves what the next holds.

    A reduce-scatter goes down the order, an all-gather up, an all-reduce down and up with its last side in one.
    """
    chosen = order or tuple(range(len(torus.sides)))
    if work is Work.ALL_TO_ALL:
        return all_to_all_phases(torus)
    down: list[Phase] = []
    up: list[Phase] = []
    compute_slowdown_frac = 1.0
    for side in chosen:
        down.append(_phase(torus, side, Work.REDUCE_SCATTER, compute_slowdown_frac))
        up.insert(0, _phase(torus, side, Work.ALL_GATHER, compute_slowdown_frac))
        compute_slowdown_frac /= torus.sides[side].num_devices
    if work is Work.REDUCE_SCATTER:
        return tuple(down)
    if work is Work.ALL_GATHER:
        return tuple(up)
    innermost = compute_slowdown_frac * torus.sides[chosen[-1]].num_devices
    return (*down[:-1], _phase(torus, chosen[-1], Work.ALL_REDUCE, innermost), *up[1:])


def _phase(torus: Torus, side: int, work: Work, compute_slowdown_frac: float) -> Phase:
    num_times = 2 if work is Work.ALL_REDUCE else 1
    of = torus.sides[side]
    return Phase(
        side=side,
        work=work,
        sent_frac=num_times * of.ring_frac * compute_slowdown_frac,
        compute_slowdown_frac=compute_slowdown_frac,
        num_steps=num_times * (of.num_devices - 1),
    )


def themis_s_per_byte(torus: Torus, work: Work) -> float:
    """Link time per payload byte when every chunk takes the order that leaves the busiest side least busy.

    Greedy over chunks, as Themis schedules them; never more than the one fixed order.
    """
    orders = [link_s_per_byte(torus, nested_phases(torus, work, o)) for o in permutations(range(len(torus.sides)))]
    busy = [0.0] * len(torus.sides)
    for _ in range(NUM_CHUNKS):
        chosen = min(orders, key=lambda order: max(b + o for b, o in zip(busy, order, strict=True)))
        busy = [b + o for b, o in zip(busy, chosen, strict=True)]
    return min(max(busy) / NUM_CHUNKS, max(orders[0]))


def switched_s_per_byte(torus: Torus, work: Work) -> float:
    """Link time per payload byte when switches add and copy: each side carries its share once up and once down.

    A reduce-scatter sends all it holds, an all-gather receives it; of an all-reduce both lie on opposite directions, so
    that a side costs 1 + 1/n, and the last side 1.
    """
    if not all(side.is_switched for side in torus.sides):
        raise NotModelled("only switches add; this network has sides without", "endpoint")
    if work is Work.ALL_TO_ALL:
        return max(link_s_per_byte(torus, all_to_all_phases(torus)))
    compute_slowdown_frac, worst_s = 1.0, 0.0
    for index, side in enumerate(torus.sides):
        is_split = work is Work.ALL_REDUCE and index < len(torus.sides) - 1
        both_frac = 1 + 1 / side.num_devices if is_split else 1.0
        worst_s = max(worst_s, compute_slowdown_frac * both_frac / torus.rate_bytes_per_s(index))
        compute_slowdown_frac /= side.num_devices
    return worst_s
