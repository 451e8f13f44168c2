"""The network of a question as values for its page: drawn, its load in a step, and one collective on it in time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.comm.events.recording import Watch
from dovetail.comm.one_collective import COLLECTIVES, CollectiveJob, library_selection, network_answer, why_no_library
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.evaluate import Outcome
from dovetail.explorer.answers import prepared, result_of
from dovetail.explorer.state import State
from dovetail.files.network import network_of, sizes_bytes
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import HeterogeneousCluster, pools_of
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.chunks import chunks_over_time
from dovetail.report.charts.link_load import LinkLoad, link_load
from dovetail.report.charts.network_use import network_use
from dovetail.report.charts.topology import collective_topology, step_topology
from dovetail.report.labels import counted, percent
from dovetail.units import format_bytes, format_rate, format_s

ALL = "all"
MOST_WATCHED = 64  # devices whose chunks are followed one by one
DEFAULT_COLLECTIVE, DEFAULT_SIZE = "all-reduce", "256 MiB"
ASKED = COLLECTIVES
WITHIN = "Collectives stay within one pool, here {}; stages alone talk between pools."


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective to follow: over all of the network or one dimension of it."""

    name: str = DEFAULT_COLLECTIVE
    size: str = DEFAULT_SIZE
    over: str = ALL
    num_chunks: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkShown:
    """What there is to see of a network: charts of a step, a sentence and charts of one collective."""

    overs: tuple[tuple[str, str], ...]  # what a collective may be over, with words: of several pools one of them
    over: str
    step: tuple[Chart, ...]
    said: str
    collective: tuple[Chart, ...]
    note: str = ""


def network_shown(state: State, asked: Collective) -> NetworkShown:
    result = result_of(prepared(state), state, has_changes=False)
    cluster = result.cluster
    pools = cluster.pools if isinstance(cluster, HeterogeneousCluster) else ()
    names = tuple(one.name for one in (pools or pools_of(cluster)[0].topology.dimensions))
    if asked.over != ALL and asked.over not in names:
        raise InvalidInput(
            f"no dimension of {cluster.name} is named {asked.over[:40]!r}{did_you_mean(asked.over, names)}"
        )
    step = (*step_topology(result), *network_use(result)) if isinstance(result, Outcome) else ()
    # collectives stay within one pool: the first, unless another is chosen
    one = next((pool for pool in pools if asked.over == pool.name), pools_of(cluster)[0])
    said, charts, note = _collective(one, replace(asked, over=ALL) if pools else asked)
    if pools:
        note = f"{WITHIN.format(one.name)} {note}".strip()
    over = one.name if pools else asked.over
    overs = (*(() if pools else ((ALL, "the whole network"),)), *((name, name) for name in names))
    return NetworkShown(overs=overs, over=over, step=step, said=said, collective=charts, note=note)


def _collective(cluster: Cluster, asked: Collective) -> tuple[str, tuple[Chart, ...], str]:
    chosen = tuple(one for one in cluster.topology.dimensions if asked.over in (ALL, one.name))
    network = network_of(cluster.name, chosen)
    [size_bytes, *more] = sizes_bytes(asked.size)
    if more:
        raise InvalidInput(f"one size is followed at once; got {asked.size[:40]!r}", "size")
    num_devices = network.graph.num_devices
    is_watched = num_devices <= MOST_WATCHED
    job = CollectiveJob(
        collective=asked.name, payload_bytes=size_bytes, network=network, engine="events" if is_watched else "library",
        num_chunks=asked.num_chunks if is_watched else 1,
    )  # fmt: skip
    if not is_watched and why_no_library(job):
        raise InvalidInput(f"{asked.name} over {num_devices:,} devices is not followed; choose one dimension")
    answer = network_answer(job, *((Watch(),) if is_watched else ()))
    where = f"{num_devices:,} devices" if asked.over == ALL else f"{num_devices:,} devices over {asked.over}"
    bound = f", {percent(answer.bound_frac)} of what the ports allow" if answer.is_bounded else ""
    said = (
        f"{asked.name} of {format_bytes(size_bytes)} on {where} takes {format_s(answer.time_s)}:"
        f" {format_rate(answer.bus_bytes_per_s, 'B/s')} bus bandwidth{bound}.{_library_beside(job)}"
    )
    loads = [LinkLoad(dimension=o.dimension, mean_frac=o.mean_frac, most_frac=o.most_frac) for o in answer.loads]
    charts = (*collective_topology(answer), *((link_load(loads),) if len(loads) > 1 else ()))
    if not is_watched:
        note = f"Chunks are followed on up to {MOST_WATCHED} devices; choose one dimension to see them."
        return said, charts, note
    return said, (*charts, *chunks_over_time(answer)), ""


def _library_beside(job: CollectiveJob) -> str:
    """What the network's library takes for the collective that events follow; nothing where none is known."""
    if job.engine == "library":
        return ""
    selected = library_selection(replace(job, num_chunks=1))
    beside = [f"{format_s(one.time_s)} by {one.algorithm}, {one.protocol}" for one in selected]
    return f" That is by events, {counted(job.num_chunks, 'chunk')}; the library takes {beside[0]}." if beside else ""
