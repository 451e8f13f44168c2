"""Seconds of collectives by the algorithm and protocol that the library selects: sizes as columns in, seconds out.

Sizes are those of nccl-tests: the whole buffer, for an all-gather and a reduce-scatter the gathered one, for an
all-to-all what each rank sends. Every form is a latency and a transfer. LL nearly adds the two. Simple moves chunks in
a pipeline: the shorter of hops and transfer hides behind the longer, at 2 sqrt(overhead of a chunk x transfer) for the
best number of chunks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.comm.library.platforms import LL, LL128, SIMPLE, NetworkConstants, Platform, RingPlatform
from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.units import KIBI
from dovetail.workload.graph import FloatArray, IntArray

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = OPERATIONS = (
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
)  # fmt: skip
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
MIN_NVLS_RANKS = 8  # measured: NVLS shows at 8 ranks, and rings at 4, on GB200 too
LL128_TUNER_FRAC = 0.92  # of the ring's bandwidth, 120 of 128 bytes and some: tuning.cc
NVLS_TUNER_RATIO = 1.875  # of the ring's bandwidth that the tuner counts NVLS with at 8 ranks
# Exponents of the norms that stand for hops beside a transfer: 1 adds them, more comes near the longer. Set by hand.
LL_EXPONENT, SIMPLE_EXPONENT = 1.5, 3.0


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
    if operation not in OPERATIONS:
        raise NotModelled(f"no collective is named {operation[:40]!r}{did_you_mean(operation, OPERATIONS)}")
    if selection not in SELECTIONS:
        raise InvalidInput(f"a selection is {' or '.join(SELECTIONS)}; got {selection[:40]!r}")
    ranks, sizes_bytes = np.broadcast_arrays(np.asarray(num_ranks, dtype=np.int64), np.asarray(size_bytes, dtype=float))
    ranks, sizes_bytes = np.atleast_1d(ranks), np.atleast_1d(sizes_bytes)
    if ranks.size and (int(ranks.min()) < 2 or num_nodes < 1 or (ranks % num_nodes).any()):
        raise InvalidInput(f"a collective has 2 ranks or more, the same number on each of {num_nodes} nodes")
    if num_nodes == 1:
        if isinstance(platform, RingPlatform):
            raise NotModelled(f"collectives inside one node of {platform.name} are not modelled; nothing was measured")
        table_s = node_table_s(platform, operation, ranks, sizes_bytes)
        best = table_s if selection == LEAST else _estimates(platform, operation, ranks, sizes_bytes)
    else:
        if nic_bytes_per_s <= 0:
            raise InvalidInput("collectives over several nodes need the bandwidth of a node's NICs, above 0")
        if isinstance(platform, RingPlatform):
            table_s = _nic_ring_table_s(platform, operation, ranks, sizes_bytes, nic_bytes_per_s)
        else:
            over = network or NetworkConstants()
            table_s = _nodes_table_s(platform, over, operation, ranks, sizes_bytes, num_nodes, nic_bytes_per_s)
        best = table_s
    selected = np.argmin(best, axis=0)
    return LibraryTimes(seconds=np.take_along_axis(table_s, selected[None], axis=0)[0], selected=selected)


def _empty(num_columns: int) -> FloatArray:
    return np.full((len(SELECTABLE), num_columns), np.inf)


def _passes(operation: str) -> int:
    """How often the payload goes round a ring: an all-reduce is a reduce-scatter and an all-gather."""
    return 2 if operation == ALL_REDUCE else 1


def link_rate_bytes_per_s(platform: Platform, num_ranks: IntArray) -> FloatArray:
    """What one GPU sends; between numbers of ranks that were measured, along a straight line in logarithms."""
    known, rates = zip(*platform.link_bytes_per_s, strict=True)
    found: FloatArray = np.exp(np.interp(np.log(num_ranks), np.log(known), np.log(rates)))
    return found


def _begun_s(platform: Platform, num_ranks: IntArray, size_bytes: FloatArray) -> FloatArray:
    """Launch and the first chunk; more where LL's payload fills more than one channel."""
    filled = (size_bytes / (num_ranks * LL_CHANNEL_BYTES)) ** 2
    found: FloatArray = platform.base_s + platform.channels_s * filled / (1 + filled)
    return found


def _longer(hops_s: Any, transfer_s: FloatArray, exponent: float) -> FloatArray:
    """Between the longer of the two and their sum: part of the hops hides behind the transfer, or of it behind them."""
    found: FloatArray = (hops_s**exponent + transfer_s**exponent) ** (1 / exponent)
    return found


def node_table_s(platform: Platform, operation: str, num_ranks: IntArray, size_bytes: FloatArray) -> FloatArray:
    """Seconds in one node by every algorithm and protocol, a row each as `SELECTABLE` has them; infinite where none."""
    own, n = platform.protocols, num_ranks
    rate = link_rate_bytes_per_s(platform, n)
    hops = _passes(operation) * (n - 1)
    begun_s = _begun_s(platform, n, size_bytes)
    times_s = _empty(len(n))
    if operation == ALL_TO_ALL:
        p2p_s = begun_s + own.p2p_s + own.p2p_peer_s * (n - 1)
        sent_bytes = (hops + platform.p2p_own_chunk_ratio) / n * size_bytes
        transfer_s = sent_bytes / (own.simple_frac * rate)
        times_s[_ROW[P2P, LL]] = p2p_s + sent_bytes / (own.ll_frac * rate)
        piped_s = _longer(own.p2p_simple_s, transfer_s, SIMPLE_EXPONENT)
        times_s[_ROW[P2P, SIMPLE]] = p2p_s + piped_s + 2 * np.sqrt(platform.chunk_s * transfer_s)
        return times_s
    ll_bytes = (hops + own.ll_own_chunk_ratio) / n * size_bytes
    ll_hops_s = begun_s - platform.base_s + platform.hop_s * hops
    times_s[_ROW[RING, LL]] = platform.base_s + _longer(ll_hops_s, ll_bytes / (own.ll_frac * rate), LL_EXPONENT)
    sent_bytes = (hops + own.own_chunk_ratio) / n * size_bytes
    if platform.has_ll128:
        times_s[_ROW[RING, LL128]] = (
            begun_s + own.ll128_hop_ratio * platform.hop_s * hops + sent_bytes / (own.ll128_frac * rate)
        )
    transfer_s = sent_bytes / (own.simple_frac * rate)
    piped_s = _longer(own.simple_hop_ratio * platform.hop_s * hops, transfer_s, SIMPLE_EXPONENT)
    times_s[_ROW[RING, SIMPLE]] = begun_s + own.simple_s + piped_s + 2 * np.sqrt(platform.chunk_s * transfer_s)
    if operation == ALL_REDUCE and platform.nvls_efficiency_frac:
        nvls_s = begun_s + _nvls_s(platform, n, size_bytes)
        times_s[_ROW[NVLS, SIMPLE]] = np.where(n >= MIN_NVLS_RANKS, nvls_s, np.inf)
    return times_s


def _nvls_s(platform: Platform, num_ranks: IntArray, size_bytes: FloatArray) -> FloatArray:
    """Reduction in the NVSwitch: each GPU sends its buffer once, and 1/n of it again as the multicast result."""
    own = platform.protocols
    rate = own.nvls_frac * platform.nvls_efficiency_frac * link_rate_bytes_per_s(platform, num_ranks)
    ramp_s = own.nvls_ramp_s * size_bytes / (size_bytes + own.nvls_ramp_bytes)
    found: FloatArray = own.nvls_s + ramp_s + (num_ranks + 1) / num_ranks * size_bytes / rate
    return found


def _estimates(platform: Platform, operation: str, num_ranks: IntArray, size_bytes: FloatArray) -> FloatArray:
    """What NCCL's tuner thinks that each algorithm and protocol takes in one node: latency + size / bandwidth."""
    n, tuner, times_s = num_ranks, platform.tuner, _empty(len(num_ranks))
    if operation == ALL_TO_ALL:  # no estimate: a threshold on what goes to each peer
        is_small = size_bytes / n <= P2P_LL_BYTES
        times_s[_ROW[P2P, LL]], times_s[_ROW[P2P, SIMPLE]] = ~is_small, is_small
        return times_s
    hops = _passes(operation) * (n - 1)
    ring = platform.tuner_bytes_per_s
    rates = (min(platform.ll_cap_bytes_per_s[0], ring / 2), LL128_TUNER_FRAC * ring, ring)
    for protocol, base_s, step_s, rate in zip((LL, LL128, SIMPLE), tuner.base_s, tuner.step_s, rates, strict=True):
        if protocol != LL128 or platform.has_ll128:
            times_s[_ROW[RING, protocol]] = base_s + step_s * hops + size_bytes * hops / n / rate
    if operation == ALL_REDUCE and platform.nvls_efficiency_frac:
        rate = NVLS_TUNER_RATIO * platform.nvls_efficiency_frac * ring
        nvls_s = tuner.nvls_s + size_bytes * hops / n / rate
        times_s[_ROW[NVLS, SIMPLE]] = np.where(n >= MIN_NVLS_RANKS, nvls_s, np.inf)
    return times_s


def _nic_ring_table_s(
    platform: RingPlatform, operation: str, num_ranks: IntArray, size_bytes: FloatArray, nic_bytes_per_s: float
) -> FloatArray:
    """One ring over all ranks of all nodes, of which the NICs are the slowest part."""
    if operation == ALL_TO_ALL:
        raise NotModelled(f"all-to-all over nodes of {platform.name} is not modelled; nothing was measured")
    hops = _passes(operation) * (num_ranks - 1)
    transfer_s = hops / num_ranks * size_bytes / (platform.nic_frac * nic_bytes_per_s)
    times_s = _empty(len(num_ranks))
    times_s[_ROW[RING, SIMPLE]] = platform.hop_s * hops + transfer_s + 2 * np.sqrt(platform.chunk_s * transfer_s)
    return times_s


def _nodes_table_s(
    platform: Platform,
    network: NetworkConstants,
    operation: str,
    num_ranks: IntArray,
    size_bytes: FloatArray,
    num_nodes: int,
    nic_bytes_per_s: float,
) -> FloatArray:
    """Seconds over several nodes by every algorithm and protocol: the longer of what the node and the NICs take.

    NVLS tree was fitted; ring, tree and PAT have the steps that NCCL's tuner counts, with the latencies fitted there.
    """
    own, passes, nic_rate = platform.protocols, _passes(operation), network.nic_frac * nic_bytes_per_s
    local = num_ranks // num_nodes
    inner_rate = own.simple_frac * link_rate_bytes_per_s(platform, np.maximum(local, 2))
    begun_s, full_s = _begun_s(platform, local, size_bytes), platform.base_s + platform.channels_s
    levels = float(np.ceil(np.log2(num_nodes)))
    cap_rate = platform.ll_cap_bytes_per_s[1 if num_nodes == 2 else 2]

    fill_s = network.fill_s * size_bytes / (size_bytes + network.fill_bytes)

    def piped_s(inner_s: FloatArray, outer_s: FloatArray) -> FloatArray:
        """Phases in the node and over the NICs beside each other."""
        found: FloatArray = np.maximum(inner_s, outer_s) + fill_s
        return found

    times_s = _empty(len(num_ranks))
    if operation == ALL_TO_ALL:
        peers_s = own.p2p_s + own.p2p_peer_s * (num_ranks - 1) + network.step_s
        inner_s = size_bytes * (local - 1) / num_ranks / inner_rate
        outer_s = size_bytes * local * (num_ranks - local) / num_ranks / nic_rate
        is_small = size_bytes / num_ranks <= P2P_LL_BYTES
        times_s[_ROW[P2P, LL]] = np.where(is_small, begun_s + peers_s + 2 * np.maximum(inner_s, outer_s), np.inf)
        times_s[_ROW[P2P, SIMPLE]] = begun_s + peers_s + own.p2p_simple_s + piped_s(inner_s, outer_s)
        return times_s
    ring_bytes = passes * (num_ranks - 1) / num_ranks * size_bytes
    ring_hops, ring_steps = passes * (num_ranks - num_nodes), passes * (num_nodes - 1)
    ring_s, nics_s = ring_bytes / inner_rate, ring_bytes / nic_rate
    times_s[_ROW[RING, LL]] = (
        begun_s + platform.hop_s * ring_hops + network.step_s * ring_steps + ring_bytes / np.minimum(cap_rate, nic_rate)
    )
    times_s[_ROW[RING, SIMPLE]] = (
        full_s
        + own.simple_s
        + network.step_s * ring_steps
        + _longer(own.simple_hop_ratio * platform.hop_s * ring_hops, piped_s(ring_s, nics_s), SIMPLE_EXPONENT)
    )
    if operation != ALL_REDUCE:
        times_s[_ROW[PAT, SIMPLE]] = (
            full_s
            + own.simple_s
            + levels * network.step_s * network.pat_step_ratio
            + network.pat_rank_s * num_ranks
            + piped_s(ring_s, nics_s)
        )
        return times_s
    tree_hops, tree_steps = 2 * (local - 1), 2 * levels
    tree_nics_s = 2 * (num_nodes - 1) / num_nodes * size_bytes / nic_rate
    times_s[_ROW[TREE, LL]] = (
        begun_s + platform.hop_s * tree_hops + network.step_s * tree_steps + ring_bytes / np.minimum(cap_rate, nic_rate)
    )
    if not platform.nvls_efficiency_frac:
        tree_hops_s = own.simple_hop_ratio * platform.hop_s * tree_hops
        times_s[_ROW[TREE, SIMPLE]] = (
            full_s
            + own.simple_s
            + network.step_s * tree_steps
            + _longer(tree_hops_s, piped_s(ring_s / network.tree_frac, tree_nics_s), SIMPLE_EXPONENT)
        )
        return times_s
    inside_s = _nvls_s(platform, np.maximum(local, 2), size_bytes)
    nvls_s = full_s + network.step_s * tree_steps + piped_s(inside_s, tree_nics_s)
    times_s[_ROW[NVLS_TREE, SIMPLE]] = np.where(local >= MIN_NVLS_RANKS, nvls_s, np.inf)
    return times_s
