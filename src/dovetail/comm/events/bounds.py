"""What no schedule can beat: the bytes that must pass the ports of a group, over what these can carry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.comm.events.network_graph import Floats, LinkGraph
from dovetail.comm.events.unit_graphs import Ints
from dovetail.errors import InvalidInput, NotModelled

# Of the payload, at every rank: what the bandwidths people quote count as moved (as NCCL's tests do).
_BUS_SHARES = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0}
_WHOLE = ("broadcast", "reduce", "point-to-point")


def bus_share(collective: str, num_ranks: int) -> float:
    """Payloads a rank must move in `collective` over `num_ranks` ranks: 2(n-1)/n, (n-1)/n or 1."""
    if collective in _WHOLE:
        return 1.0
    if collective not in _BUS_SHARES:
        raise NotModelled(f"the volume of {collective!r} is not modelled")
    return _BUS_SHARES[collective] * (num_ranks - 1) / num_ranks


def port_bytes_per_s(graph: LinkGraph, dimensions: Sequence[str] = ()) -> tuple[Floats, Floats]:
    """What every device can send, and receive, over its live links in `dimensions` (all, when none is named).

    Where links are broken the ways round them may lead through any dimension, so all count.
    """
    is_counted = graph.is_alive.copy()
    for block in graph.blocks:
        if dimensions and block.name not in dimensions and not graph.is_broken:
            copies = graph.num_devices // block.num_devices
            is_counted[block.first_link : block.first_link + copies * block.num_links] = False
    rates = np.where(is_counted, graph.bandwidth_bytes_per_s, 0.0)
    sent, received = np.zeros(graph.num_vertices), np.zeros(graph.num_vertices)
    np.add.at(sent, graph.source, rates)
    np.add.at(received, graph.target, rates)
    return sent[: graph.num_devices], received[: graph.num_devices]


def port_bound_s(
    collective: str, payload_bytes: float, groups: Ints, graph: LinkGraph, dimensions: Sequence[str], in_switch: bool
) -> float:
    """The least time `collective` can take in the slowest of `groups` (rows of devices).

    Every device must send and receive its share past its own ports. An all-reduce must also move 2(n-1) payloads into
    the n devices together, unless switches add up: then one payload each way will do.
    """
    num_ranks = groups.shape[1]
    if num_ranks == 1 or not payload_bytes:
        return 0.0
    sent, received = port_bytes_per_s(graph, dimensions)
    share = min(1.0, bus_share(collective, num_ranks))
    _check_joined(collective, sent, received, groups)
    with np.errstate(divide="ignore"):
        one_s = float((payload_bytes * share / np.minimum(sent, received)[groups]).max())
    if collective in ("broadcast", "reduce", "point-to-point"):
        return float(payload_bytes / _widest(collective, sent, received, groups))
    if collective != "all-reduce" or in_switch:
        return one_s
    together = received[groups].sum(axis=1)
    return max(one_s, float((2 * (num_ranks - 1) * payload_bytes / together).max()))


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


def _widest(collective: str, sent: Floats, received: Floats, groups: Ints) -> float:
    """Rate of the slowest end of a transfer from (or to) the first device of each group."""
    first, others = groups[:, 0], groups[:, 1:]
    if collective == "reduce":
        return float(min(sent[others].min(), received[first].min()))
    return float(min(sent[first].min(), received[others].min()))
