"""What no schedule can beat: the bytes that must pass the ports of a group, over what these can carry."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from dovetail.comm.events.network_graph import Floats, LinkGraph
from dovetail.comm.events.unit_graphs import Ints
from dovetail.errors import InvalidInput, NotModelled

# Of the payload, at every rank: what the bandwidths people quote count as moved (as NCCL's tests do).
_BUS_SHARES = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0}
# Payloads that arrive at all ranks together, for each but one of them, where no switch adds or multicasts.
_TOGETHER = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0}
_WHOLE = ("broadcast", "reduce", "point-to-point")


def bus_share(collective: str, num_ranks: int) -> float:
    """Payloads a rank must move in `collective` over `num_ranks` ranks: 2(n-1)/n, (n-1)/n or 1."""
    if collective in _WHOLE:
        return 1.0
    if collective not in _BUS_SHARES:
        raise NotModelled(f"the volume of {collective!r} is not modelled")
    return _BUS_SHARES[collective] * (num_ranks - 1) / num_ranks


def port_bytes_per_s(graph: LinkGraph, dimensions: Sequence[str] = (), inner: int = 0) -> tuple[Floats, Floats]:
    """What every device can send, and receive, over its live links in `dimensions` (all, when none is named).

    Where links are broken the ways round them may lead through any dimension, so all count. The `inner` innermost
    dimensions never do.
    """
    is_counted = graph.is_alive.copy()
    for place, block in enumerate(graph.blocks):
        if place < inner or (dimensions and block.name not in dimensions and not graph.is_broken):
            copies = graph.num_devices // block.num_devices
            is_counted[block.first_link : block.first_link + copies * block.num_links] = False
    rates = np.where(is_counted, graph.bandwidth_bytes_per_s, 0.0)
    sent, received = np.zeros(graph.num_vertices), np.zeros(graph.num_vertices)
    np.add.at(sent, graph.source, rates)
    np.add.at(received, graph.target, rates)
    return sent[: graph.num_devices], received[: graph.num_devices]


def port_bound_s(
    collective: str,
    payload_bytes: float,
    groups: Ints,
    graph: LinkGraph,
    dimensions: Sequence[str] = (),
    reducing: Collection[str] = (),
) -> float:
    """The least time `collective` can take in all of `groups` (rows of devices) at once.

    Every device must send and receive its share past its own ports, and so must every node, and whatever else holds
    all devices of the inner dimensions, past those that lead out of it. Dimensions may work beside each other, so the
    slowest of these is the bound. `reducing` are the dimensions whose switches add and multicast: one payload each way
    will do there, where ranks that add themselves must move as much as all of them together lack.
    """
    num_ranks = groups.shape[1]
    if num_ranks == 1 or not payload_bytes:
        return 0.0
    _check_joined(collective, *port_bytes_per_s(graph, dimensions), groups)
    bound_s = 0.0
    for inner, block in enumerate(graph.blocks):
        ports = port_bytes_per_s(graph, dimensions, inner)
        is_reducing = any(outer.name in reducing for outer in graph.blocks[inner:])
        bound_s = max(bound_s, _cut_bound_s(collective, groups, ports, block.stride, is_reducing))
    return bound_s * payload_bytes


def _cut_bound_s(
    collective: str, groups: Ints, ports: tuple[Floats, Floats], stride: int, is_reducing: bool
) -> float:  # style: for each byte of the payload
    """The least time by what must leave and enter every `stride` devices that follow one another."""
    (num_groups, num_ranks), num_units = groups.shape, len(ports[0]) // stride
    sent, received = (rates.reshape(num_units, stride).sum(axis=1) for rates in ports)
    places = np.arange(num_groups)[:, None] * num_units + groups // stride
    found, num_here = np.unique(places, return_counts=True)
    found, num_here = found[num_here < num_ranks], num_here[num_here < num_ranks]
    if not len(found):
        return 0.0
    group, unit = found // num_units, found % num_units
    out, into = _least_shares(collective, num_here, num_ranks, unit == groups[group, 0] // stride)
    bounds = [
        _slowest_s(np.bincount(unit, share, num_units).astype(float), rates)
        for share, rates in ((out, sent), (into, received))
    ]
    if not is_reducing:  # what arrives was sent, by ranks of the same group
        moved = _TOGETHER.get(collective, 0.0) * np.maximum(np.bincount(group, minlength=num_groups) - 1.0, 0.0)
        for rates in (sent, received):
            bounds.append(_slowest_s(moved, np.bincount(group, rates[unit], num_groups).astype(float)))
            bounds.append(_slowest_s(moved.sum(), rates[np.unique(unit)].sum()))
    return max(bounds)


def _least_shares(
    collective: str, num_here: Ints, num_ranks: int, has_root: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Payloads that must leave, and enter, where `num_here` of the ranks are."""
    here, there = num_here / num_ranks, 1 - num_here / num_ranks
    root, others = has_root.astype(float), (~has_root).astype(float)
    shares = {
        "all-reduce": (np.ones(len(here)), np.ones(len(here))),
        "all-gather": (here, there),
        "reduce-scatter": (there, here),
        "all-to-all": (num_here * there, num_here * there),
        "reduce": (others, root),
        "broadcast": (root, others),
        "point-to-point": (root, others),
    }
    if collective not in shares:
        raise NotModelled(f"the volume of {collective!r} is not modelled")
    return shares[collective]


def _slowest_s(shares: Floats, rates: Floats) -> float:
    """The longest time of shares over rates, where there is anything to move."""
    shares, rates = np.atleast_1d(shares), np.atleast_1d(rates)
    is_moved = shares > 0
    with np.errstate(divide="ignore"):
        return float((shares[is_moved] / rates[is_moved]).max(initial=0.0))


def _check_joined(collective: str, sent: Floats, received: Floats, groups: Ints) -> None:
    """Refuses groups in which a device that must send, or receive, has no live link left to do so."""
    first, others = groups[:, :1].ravel(), groups[:, 1:].ravel()
    senders, receivers = groups.ravel(), groups.ravel()
    if collective in _WHOLE:
        senders, receivers = (others, first) if collective == "reduce" else (first, others)
    for word, rates, devices in (("from", sent, senders), ("to", received, receivers)):
        cut_off = devices[rates[devices] == 0]
        if len(cut_off):
            raise InvalidInput(f"no way leads {word} device {cut_off[0]}: all its links that way are broken")
