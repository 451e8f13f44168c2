"""Seconds of collectives by the algorithm and protocol that the library selects: sizes as columns in, seconds out.

Sizes are those of nccl-tests: the whole buffer, for an all-gather and a reduce-scatter the gathered one, for an
all-to-all what each rank sends. Every form is a latency and a transfer. LL nearly adds the two. Simple moves chunks in
a pipeline: the shorter of hops and transfer hides behind the longer, at 2 sqrt(overhead of a chunk x transfer) for the
best number of chunks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dovetail.comm.library.platforms import LL, LL128, SIMPLE, NetworkConstants, Platform, RingPlatform
from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.units import KIBI
from dovetail.workload.graph import FloatArray, IntArray

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = OPERATIONS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
)  # fmt: skip
POINT_TO_POINT = "point-to-point"  # one message from a rank to another: a send and a receive
RING, TREE, NVLS, NVLS_TREE, PAT, P2P = "ring", "tree", "NVLS", "NVLS tree", "PAT", "p2p"
# What a library can select, in the order of rows of a table of times.
SELECTABLE = (
    (RING, LL), (RING, LL128), (RING, SIMPLE), (NVLS, SIMPLE), (P2P, LL), (P2P, SIMPLE),
    (TREE, LL), (TREE, SIMPLE), (NVLS_TREE, SIMPLE), (PAT, SIMPLE),
)  # fmt: skip
_ROW = {pair: row for row, pair in enumerate(SELECTABLE)}
TUNER, LEAST = SELECTIONS = ("tuner", "least")
P2P_LL_BYTES = 16 * KIBI  # per peer: NCCL_P2P_LL_THRESHOLD's default
LL_CHANNEL_BYTES = 4 * KIBI  # per rank that one channel of LL takes: 512 threads x 8 bytes (NCCL_LL_THREAD_THRESHOLD)
# Of the others: 640 threads x 8 bytes, 512 x 64 (NCCL_LL128_THREAD_THRESHOLD, NCCL_SIMPLE_THREAD_THRESHOLD).
CHANNEL_BYTES = {LL: LL_CHANNEL_BYTES, LL128: 5 * KIBI, SIMPLE: 32 * KIBI}
MIN_NVLS_RANKS = 8  # measured: NVLS shows at 8 ranks, and rings at 4, on GB200 too
LL128_TUNER_FRAC = 0.92  # of the ring's bandwidth, 120 of 128 bytes and some: tuning.cc
NVLS_TUNER_RATIO = 1.875  # of the ring's bandwidth that the tuner counts NVLS with at 8 ranks


def operation_of(name: str) -> str:
    """The collective that a name means, however it is written: `all_gather`, `AllGather`, `alltoall_perf`."""
    plain = re.sub(r"[^a-z]", "", name.lower()).removesuffix("perf")
    for operation in OPERATIONS:
        if plain == operation.replace("-", ""):
            return operation
    raise NotModelled(f"collective {name[:40]!r} is not modelled; known are {', '.join(OPERATIONS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTimes:
    """Seconds of each collective, and as rows of `SELECTABLE` how the library ran it."""

    seconds: FloatArray
    selected: IntArray

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(SELECTABLE[row][0] for row in self.selected)

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(SELECTABLE[row][1] for row in self.selected)


Form = Callable[[FloatArray], FloatArray]  # seconds of sizes
Forms = Mapping[int, Form]  # by rows of SELECTABLE


def library_times(
    platform: Platform | RingPlatform,
    operation: str,
    num_ranks: IntArray | int,
    size_bytes: FloatArray | float,
    *,
    num_nodes: int = 1,
    nic_bytes_per_s: float = 0.0,
    network: NetworkConstants | None = None,
    selection: str = TUNER,
) -> LibraryTimes:
    """What the library takes for `operation` over `num_ranks` GPUs, spread over `num_nodes` in equal parts.

    `nic_bytes_per_s` are all NICs of a node, in one direction. In one node the `tuner` of NCCL selects, often not the
    fastest; `least` takes the fastest, as do several nodes, where network plugins bring tuners of their own.
    """
    ranks, sizes_bytes = np.broadcast_arrays(np.asarray(num_ranks, dtype=np.int64), np.asarray(size_bytes, dtype=float))
    ranks, sizes_bytes = np.atleast_1d(ranks), np.atleast_1d(sizes_bytes)
    seconds, selected = np.empty(len(ranks)), np.empty(len(ranks), dtype=np.int64)
    for n in np.unique(ranks).tolist():
        is_n = ranks == n
        group = library_group(
            platform, operation, n, num_nodes=num_nodes, nic_bytes_per_s=nic_bytes_per_s, network=network
        )
        found = group.times(sizes_bytes[is_n], selection)
        seconds[is_n], selected[is_n] = found.seconds, found.selected
    return LibraryTimes(seconds=seconds, selected=selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryGroup:
    """One collective on one group of ranks: its time by every algorithm and protocol that there is, as forms of the
    size alone; and what the library's tuner takes them to be, where it selects by that.
    """

    forms: Forms
    estimates: Forms
    channels: Forms = field(default_factory=dict)  # how many a size runs on, where the library is known to open so many
    requested: Forms = field(default_factory=dict)  # what it runs where it is requested, and does not select itself

    def num_channels(self, row: int, size_bytes: float) -> int:
        """Channels that a collective runs on by a row of `SELECTABLE`; 0 where that is not known."""
        return int(self.channels[row](np.array([size_bytes]))[0]) if row in self.channels else 0

    def times(self, size_bytes: FloatArray, selection: str = TUNER) -> LibraryTimes:
        if selection not in SELECTIONS:
            raise InvalidInput(f"a selection is {' or '.join(SELECTIONS)}; got {selection[:40]!r}")
        rows = list(self.forms)
        table_s = np.stack([self.forms[row](size_bytes) for row in rows])
        judged = table_s
        if self.estimates and selection == TUNER:
            judged = np.stack([self.estimates[row](size_bytes) for row in rows])
        best = judged.argmin(axis=0)
        return LibraryTimes(seconds=table_s[best, np.arange(len(best))], selected=np.array(rows)[best])

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Those that there is a time by, each once."""
        return tuple(dict.fromkeys(SELECTABLE[row][0] for row in (*self.forms, *self.requested)))

    def by(self, algorithm: str) -> LibraryGroup:
        """By one algorithm alone, as NCCL_ALGO has it: the library still selects the protocol."""
        known = {**self.forms, **self.requested}
        rows = [row for row in known if SELECTABLE[row][0] == algorithm]
        if not rows:
            raise InvalidInput(f"no time by {algorithm[:40]} is known; there are {', '.join(self.algorithms)}")
        return LibraryGroup(
            forms={row: known[row] for row in rows},
            estimates={row: self.estimates[row] for row in rows if row in self.estimates},
            channels=self.channels,
        )

    @property
    def in_switch(self) -> LibraryGroup:
        """By the algorithms alone that reduce in switches; as the library selects where none of them was measured."""
        forms = {row: form for row, form in self.forms.items() if SELECTABLE[row][0] in (NVLS, NVLS_TREE)}
        return LibraryGroup(forms=forms, estimates={}, channels=self.channels) if forms else self


def library_group(
    platform: Platform | RingPlatform,
    operation: str,
    num_ranks: int,
    *,
    num_nodes: int = 1,
    nic_bytes_per_s: float = 0.0,
    network: NetworkConstants | None = None,
) -> LibraryGroup:
    """`operation` over `num_ranks` GPUs on `num_nodes`; see `library_times`."""
    if operation not in (*OPERATIONS, POINT_TO_POINT):
        raise NotModelled(f"no collective is named {operation[:40]!r}{did_you_mean(operation, OPERATIONS)}")
    if num_ranks < 2 or num_nodes < 1 or num_ranks % num_nodes:
        raise InvalidInput(f"a collective has 2 ranks or more, the same number on each of {num_nodes} nodes")
    if num_nodes == 1:
        if isinstance(platform, RingPlatform):
            raise NotModelled(f"collectives inside one node of {platform.name} are not modelled; nothing was measured")
        if operation == POINT_TO_POINT:
            return LibraryGroup(forms=_send_forms(platform), estimates=_estimates(platform, ALL_TO_ALL, 1))
        return LibraryGroup(
            forms=_node_forms(platform, operation, num_ranks),
            estimates=_estimates(platform, operation, num_ranks),
            channels=channel_forms(platform, num_ranks, is_network=False),
        )
    if nic_bytes_per_s <= 0:
        raise InvalidInput("collectives over several nodes need the bandwidth of a node's NICs, above 0")
    if operation == POINT_TO_POINT:
        send = _send_between_nodes(platform, network or NetworkConstants(), nic_bytes_per_s * num_nodes / num_ranks)
        return LibraryGroup(forms={_ROW[P2P, SIMPLE]: send}, estimates={})
    if isinstance(platform, RingPlatform):
        return LibraryGroup(forms=_nic_ring_forms(platform, operation, num_ranks, nic_bytes_per_s), estimates={})
    over = network or NetworkConstants()
    forms = _nodes_forms(platform, over, operation, num_ranks, num_nodes, nic_bytes_per_s)
    # with NVLS the tuner leaves trees of Simple for NVLS trees
    left = [_ROW[TREE, SIMPLE]] if platform.nvls_efficiency_frac else []
    return LibraryGroup(
        forms={row: form for row, form in forms.items() if row not in left},
        estimates={},
        requested={row: form for row, form in forms.items() if row in left},
        channels=channel_forms(platform, num_ranks, is_network=True),
    )


def channel_forms(platform: Platform, num_ranks: int, *, is_network: bool) -> Forms:
    """Channels that a size runs on, by rows of `SELECTABLE`: NCCL's topoGetAlgoInfo (enqueue.cc).

    Rings and trees open fewer of them until each has what all its threads take at once; NVLS runs on all. Sends and
    receives are split over channels peer by peer, which is not modelled.
    """
    own = platform.channels
    num_most, num_nvls = (own.num_network, own.num_network_nvls) if is_network else (own.num_node, own.num_node_nvls)

    def filled(one_bytes: float) -> Form:
        return lambda size: np.clip(size // one_bytes, 1, num_most)

    found: dict[int, Form] = {}
    for row, (algorithm, protocol) in enumerate(SELECTABLE):
        if algorithm in (NVLS, NVLS_TREE):
            if num_nvls:
                found[row] = lambda size: np.full(len(size), float(num_nvls))
        elif algorithm != P2P and num_most:
            is_per_rank = (algorithm, protocol) == (RING, LL)
            found[row] = filled(CHANNEL_BYTES[protocol] * (num_ranks if is_per_rank else 1))
    return found


def _passes(operation: str) -> int:
    """How often the payload goes round a ring: an all-reduce is a reduce-scatter and an all-gather."""
    return 2 if operation == ALL_REDUCE else 1


def link_rate_bytes_per_s(platform: Platform, num_ranks: IntArray | int) -> FloatArray:
    """What one GPU sends; between numbers of ranks that were measured, along a straight line in logarithms."""
    known, rates = zip(*platform.link_bytes_per_s, strict=True)
    found: FloatArray = np.exp(np.interp(np.log(num_ranks), np.log(known), np.log(rates)))
    return found


def _opened(platform: Platform, num_ranks: int) -> Form:
    """What opening more than one channel takes, where LL's payload fills more than one."""
    one_bytes = num_ranks * LL_CHANNEL_BYTES

    def opened_s(size_bytes: FloatArray) -> FloatArray:
        filled = (size_bytes / one_bytes) ** 2
        found: FloatArray = platform.channels_s * filled / (1 + filled)
        return found

    return opened_s


def _longer(hops_s: Any, transfer_s: FloatArray) -> FloatArray:
    """About the longer of the two, (a^3 + b^3)^(1/3): what is shorter hides behind it. The exponent is set by hand."""
    found: FloatArray = np.cbrt(hops_s * hops_s * hops_s + transfer_s * transfer_s * transfer_s)
    return found


def _nearly_added(hops_s: FloatArray, transfer_s: FloatArray) -> FloatArray:
    """(a^1.5 + b^1.5)^(2/3): little of either hides. The exponent is set by hand."""
    found: FloatArray = np.cbrt((hops_s * np.sqrt(hops_s) + transfer_s * np.sqrt(transfer_s)) ** 2)
    return found


def _simple(latency_s: float, opened_s: Form, hops_s: float, s_per_byte: float, chunk_s: float) -> Form:
    """Chunks in a pipeline: hops beside the transfer, and an overhead for every chunk at the best number of them."""
    chunks_s = 2 * math.sqrt(chunk_s * s_per_byte)

    def seconds(size_bytes: FloatArray) -> FloatArray:
        piped_s = _longer(hops_s, s_per_byte * size_bytes)
        found: FloatArray = latency_s + opened_s(size_bytes) + piped_s + chunks_s * np.sqrt(size_bytes)
        return found

    return seconds


def _node_forms(platform: Platform, operation: str, num_ranks: int) -> Forms:
    """In one node, by every algorithm and protocol that there is."""
    own, n, base_s = platform.protocols, num_ranks, platform.base_s
    rate = float(link_rate_bytes_per_s(platform, n))
    hops, opened_s = _passes(operation) * (n - 1), _opened(platform, n)
    if operation == ALL_TO_ALL:
        p2p_s = base_s + own.p2p_s + own.p2p_peer_s * (n - 1)
        share = (hops + platform.p2p_own_chunk_ratio) / n
        ll_s_per_byte = share / (own.ll_frac * rate)
        return {
            _ROW[P2P, LL]: lambda size: p2p_s + opened_s(size) + ll_s_per_byte * size,
            _ROW[P2P, SIMPLE]: _simple(
                p2p_s, opened_s, own.p2p_simple_s, share / (own.simple_frac * rate), platform.chunk_s
            ),
        }
    ll_s_per_byte, ll_hops_s = (hops + own.ll_own_chunk_ratio) / n / (own.ll_frac * rate), platform.hop_s * hops
    share = (hops + own.own_chunk_ratio) / n
    forms: dict[int, Form] = {
        _ROW[RING, LL]: lambda size: base_s + _nearly_added(opened_s(size) + ll_hops_s, ll_s_per_byte * size),
        _ROW[RING, SIMPLE]: _simple(
            base_s + own.simple_s,
            opened_s,
            own.simple_hop_ratio * platform.hop_s * hops,
            share / (own.simple_frac * rate),
            platform.chunk_s,
        ),
    }
    if platform.has_ll128:
        ll128_s, ll128_s_per_byte = (
            base_s + own.ll128_hop_ratio * platform.hop_s * hops,
            share / (own.ll128_frac * rate),
        )
        forms[_ROW[RING, LL128]] = lambda size: ll128_s + opened_s(size) + ll128_s_per_byte * size
    if _has_nvls(platform, operation, n):
        nvls_s = _nvls(platform, n)
        forms[_ROW[NVLS, SIMPLE]] = lambda size: base_s + opened_s(size) + nvls_s(size)
    return forms


def _send_forms(platform: Platform) -> Forms:
    """One message inside a node: what an all-to-all over two ranks sends, without the chunk that a rank keeps."""
    own, rate, opened_s = platform.protocols, float(link_rate_bytes_per_s(platform, 2)), _opened(platform, 1)
    begin_s, ll_s_per_byte = platform.base_s + own.p2p_s + own.p2p_peer_s, 1 / (own.ll_frac * rate)
    return {
        _ROW[P2P, LL]: lambda size: begin_s + opened_s(size) + ll_s_per_byte * size,
        _ROW[P2P, SIMPLE]: _simple(begin_s, opened_s, own.p2p_simple_s, 1 / (own.simple_frac * rate), platform.chunk_s),
    }


def _send_between_nodes(platform: Platform | RingPlatform, network: NetworkConstants, port_bytes_per_s: float) -> Form:
    """One message over the port of a device: a step of the network, and the transfer. Nothing was measured of it alone.

    Nothing of the node takes part, so that no pipeline between node and network has to fill.
    """
    if isinstance(platform, RingPlatform):
        return _line(platform.hop_s, 1 / (platform.nic_frac * port_bytes_per_s))
    own = platform.protocols
    begin_s = platform.base_s + own.p2p_s + own.p2p_peer_s + network.step_s
    return _line(begin_s, 1 / (network.nic_frac * port_bytes_per_s))


def _has_nvls(platform: Platform, operation: str, num_local: int) -> bool:
    return operation == ALL_REDUCE and platform.nvls_efficiency_frac > 0 and num_local >= MIN_NVLS_RANKS


def _nvls(platform: Platform, num_ranks: int) -> Form:
    """Reduction in the NVSwitch: each GPU sends its buffer once, and 1/n of it again as the multicast result."""
    own = platform.protocols
    rate = own.nvls_frac * platform.nvls_efficiency_frac * float(link_rate_bytes_per_s(platform, num_ranks))
    s_per_byte = (num_ranks + 1) / num_ranks / rate

    def seconds(size_bytes: FloatArray) -> FloatArray:
        ramp_s = own.nvls_ramp_s * size_bytes / (size_bytes + own.nvls_ramp_bytes)
        found: FloatArray = own.nvls_s + ramp_s + s_per_byte * size_bytes
        return found

    return seconds


def _line(latency_s: float, s_per_byte: float) -> Form:
    def seconds(size_bytes: FloatArray) -> FloatArray:
        return latency_s + s_per_byte * size_bytes

    return seconds


def _estimates(platform: Platform, operation: str, num_ranks: int) -> Forms:
    """What NCCL's tuner thinks that each algorithm and protocol takes in one node: latency + size / bandwidth."""
    n, tuner = num_ranks, platform.tuner
    if operation == ALL_TO_ALL:  # no estimate: a threshold on what goes to each peer
        return {
            _ROW[P2P, LL]: lambda size: (size / n > P2P_LL_BYTES).astype(np.float64),
            _ROW[P2P, SIMPLE]: lambda size: (size / n <= P2P_LL_BYTES).astype(np.float64),
        }
    hops, ring = _passes(operation) * (n - 1), platform.tuner_bytes_per_s
    rates = (min(platform.ll_cap_bytes_per_s[0], ring / 2), LL128_TUNER_FRAC * ring, ring)
    forms = {
        _ROW[RING, protocol]: _line(base_s + step_s * hops, hops / n / rate)
        for protocol, base_s, step_s, rate in zip((LL, LL128, SIMPLE), tuner.base_s, tuner.step_s, rates, strict=True)
        if protocol != LL128 or platform.has_ll128
    }
    if _has_nvls(platform, operation, n):
        rate = NVLS_TUNER_RATIO * platform.nvls_efficiency_frac * ring
        forms[_ROW[NVLS, SIMPLE]] = _line(tuner.nvls_s, hops / n / rate)
    return forms


def _nic_ring_forms(platform: RingPlatform, operation: str, num_ranks: int, nic_bytes_per_s: float) -> Forms:
    """One ring over all ranks of all nodes, of which the NICs are the slowest part."""
    if operation == ALL_TO_ALL:
        raise NotModelled(f"all-to-all over nodes of {platform.name} is not modelled; nothing was measured")
    hops = _passes(operation) * (num_ranks - 1)
    s_per_byte = hops / num_ranks / (platform.nic_frac * nic_bytes_per_s)
    latency_s, chunks_s = platform.hop_s * hops, 2 * math.sqrt(platform.chunk_s * s_per_byte)
    return {_ROW[RING, SIMPLE]: lambda size: latency_s + s_per_byte * size + chunks_s * np.sqrt(size)}


def _nodes_forms(
    platform: Platform,
    network: NetworkConstants,
    operation: str,
    num_ranks: int,
    num_nodes: int,
    nic_bytes_per_s: float,
) -> Forms:
    """Over several nodes, by every algorithm and protocol: the longer of what the node and the NICs take.

    NVLS tree was fitted; ring, tree and PAT have the steps that NCCL's tuner counts, with the latencies fitted there.
    """
    own, passes, nic_rate = platform.protocols, _passes(operation), network.nic_frac * nic_bytes_per_s
    local = num_ranks // num_nodes
    inner_rate = own.simple_frac * float(link_rate_bytes_per_s(platform, max(local, 2)))
    opened_s, full_s = _opened(platform, local), platform.base_s + platform.channels_s
    levels = math.ceil(math.log2(num_nodes))
    # every eight bytes of LL carry four of flags: half of what the NICs do, as half of what links do in one node
    ll_rate = min(platform.ll_cap_bytes_per_s[1 if num_nodes == 2 else 2], nic_rate / 2)

    def fill_s(size_bytes: FloatArray) -> FloatArray:
        found: FloatArray = network.fill_s * size_bytes / (size_bytes + network.fill_bytes)
        return found

    def piped(latency_s: float, s_per_byte: float, hops_s: float = 0.0) -> Form:
        """Phases in the node and over the NICs beside each other, the slower at so much per byte; hops beside both."""

        def seconds(size_bytes: FloatArray) -> FloatArray:
            moving_s = s_per_byte * size_bytes + fill_s(size_bytes)
            return latency_s + (_longer(hops_s, moving_s) if hops_s else moving_s)

        return seconds

    def flagged(latency_s: float, s_per_byte: float) -> Form:
        """By LL: hops, then the transfer."""
        return lambda size: latency_s + opened_s(size) + s_per_byte * size

    if operation == ALL_TO_ALL:
        peers_s = platform.base_s + own.p2p_s + own.p2p_peer_s * (num_ranks - 1) + network.step_s
        inner, outer = (local - 1) / num_ranks / inner_rate, local * (num_ranks - local) / num_ranks / nic_rate
        small, moved = flagged(peers_s, 2 * max(inner, outer)), piped(0.0, max(inner, outer))
        return {
            _ROW[P2P, LL]: lambda size: np.where(size / num_ranks <= P2P_LL_BYTES, small(size), np.inf),
            _ROW[P2P, SIMPLE]: lambda size: peers_s + own.p2p_simple_s + opened_s(size) + moved(size),
        }
    share = passes * (num_ranks - 1) / num_ranks
    ring_hops, ring_steps = passes * (num_ranks - num_nodes), passes * (num_nodes - 1)
    ring_s, simple_s = share / min(inner_rate, nic_rate), full_s + own.simple_s
    simple_hop_s = own.simple_hop_ratio * platform.hop_s
    forms: dict[int, Form] = {
        _ROW[RING, LL]: flagged(
            platform.base_s + platform.hop_s * ring_hops + network.step_s * ring_steps, share / ll_rate
        ),
        _ROW[RING, SIMPLE]: piped(simple_s + network.step_s * ring_steps, ring_s, simple_hop_s * ring_hops),
    }
    if operation != ALL_REDUCE:
        if local > 1:  # NCCL runs PAT with one rank on each node alone: ncclPatEnable of tuning.cc
            return forms
        pat_s = levels * network.step_s * network.pat_step_ratio + network.pat_rank_s * num_ranks
        forms[_ROW[PAT, SIMPLE]] = piped(simple_s + pat_s, ring_s)
        return forms
    tree_hops, tree_s = 2 * (local - 1), network.step_s * 2 * levels
    nics_s_per_byte = 2 * (num_nodes - 1) / num_nodes / nic_rate
    forms[_ROW[TREE, LL]] = flagged(platform.base_s + platform.hop_s * tree_hops + tree_s, share / ll_rate)
    tree_s_per_byte = max(share / inner_rate / network.tree_frac, nics_s_per_byte)
    forms[_ROW[TREE, SIMPLE]] = piped(simple_s + tree_s, tree_s_per_byte, simple_hop_s * tree_hops)
    if platform.nvls_efficiency_frac and local >= MIN_NVLS_RANKS:
        inside_s = _nvls(platform, local)

        def nvls_tree_s(size_bytes: FloatArray) -> FloatArray:
            moving_s = np.maximum(inside_s(size_bytes), nics_s_per_byte * size_bytes)
            found: FloatArray = full_s + tree_s + moving_s + fill_s(size_bytes)
            return found

        forms[_ROW[NVLS_TREE, SIMPLE]] = nvls_tree_s
    return forms
