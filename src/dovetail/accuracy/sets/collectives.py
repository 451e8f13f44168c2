"""Measured collectives, in one node or over several, beside what the library's model takes; by platform."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.collective_rows import NODES, ONE_NODE, Collectives, nodes_rows, one_node_rows, seconds_of
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.comm.library.on_group import LIBRARIES, constants_on, library_of
from dovetail.comm.library.platforms import NetworkConstants, Platform, RingPlatform, nearest_platform, plain_name
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import Group, Span
from dovetail.workload.graph import BoolArray, FloatArray


def prepared_collectives(
    measurements: Measurements, given: TableContext, rows: Collectives, *, is_log: bool = False
) -> tuple[Prepared, ...]:
    """Sets by kind of link; raises `UnreadableRows` for rows that are not modelled.

    Rows of platforms that nothing was measured on are a set of their own. No bar holds for those, for a log of the
    user's own, and for rows that a cluster of the user's is compared with; `--chip` may say what a log was measured on.
    """
    if given.cluster is not None:
        return (_on_cluster(measurements, given, given.cluster, rows),)
    refused: dict[int, str] = {}
    seconds, ran, links = np.full(len(rows), np.nan), [""] * len(rows), [""] * len(rows)
    for product in dict.fromkeys(rows.products):
        own = np.flatnonzero([one == product for one in rows.products])
        is_own = np.isin(np.arange(len(rows)), own)
        try:
            platform, outside = nearest_platform(product)
        except NotModelled as error:
            refused |= {int(row): error.message for row in own}
            continue
        why: dict[int, str] = {}
        seconds[own], how = seconds_of(platform, NetworkConstants(), rows.where(is_own), why)
        refused |= {int(own[row]): reason for row, reason in why.items()}
        for row, one in zip(own, how, strict=True):
            ran[row], links[row] = one, outside or _link(platform, int(rows.num_nodes[row]))
    if refused:
        raise measurements.unreadable(refused)
    known = sorted(set(links))
    return tuple(
        _prepared(
            f"{measurements.name}, {link}" if len(known) > 1 or "evidence" in link else measurements.name,
            rows.where(chosen),
            seconds[chosen],
            tuple(words for words, is_chosen in zip(ran, chosen, strict=True) if is_chosen),
            given,
            is_log=is_log,
            promise="" if is_log or "evidence" in link else f"collectives over {link}",
        )
        for link, chosen in ((link, np.array([one == link for one in links])) for link in known)
    )


def _link(platform: Platform | RingPlatform, num_nodes: int) -> str:
    return "nodes" if num_nodes > 1 or isinstance(platform, RingPlatform) else platform.link


def _on_cluster(measurements: Measurements, given: TableContext, cluster: Cluster, rows: Collectives) -> Prepared:
    """All rows of the cluster's platform, by the constants of its library; of a table of one platform, all."""
    group: Group = tuple(Span(dimension=one, num_ranks=one.num_devices) for one in cluster.topology.dimensions)
    if library_of(group) not in LIBRARIES:
        rule = f"the network of {cluster.name} names no collective library"
        raise InvalidInput(f"{rule}; give each of its dimensions one, or its file `collectives`", "--cluster")
    kept = rows_of_platform(rows, cluster.platform)
    chosen, refused = rows.where(kept), dict[int, str]()
    seconds, ran = seconds_of(*constants_on(group), chosen, refused)
    if refused:
        places = np.flatnonzero(kept)
        raise measurements.unreadable({int(places[row]): reason for row, reason in refused.items()})
    found = _prepared(measurements.name, chosen, seconds, ran, given, is_log=True, promise="")
    others = len(rows) - len(chosen)
    skipped = ((f"rows of other platforms than {cluster.platform}", others),) if others else ()
    return replace(found, is_of_cluster=True, skipped=skipped)


def rows_of_platform(rows: Collectives, platform: str) -> BoolArray:
    """Which rows are of a platform by its name; all where none is named or all rows are of one."""
    names = {plain_name(product) for product in rows.products}
    if not platform or len(names) == 1:
        return np.ones(len(rows), dtype=np.bool_)
    found = np.array([plain_name(product) == plain_name(platform) for product in rows.products], dtype=np.bool_)
    if not found.any():
        known = ", ".join(sorted(set(rows.products)))
        raise InvalidInput(f"no row is of platform {platform[:40]!r}; the table has {known[:200]}")
    return found


def _prepared(
    name: str,
    rows: Collectives,
    seconds: FloatArray,
    ran: tuple[str, ...],
    given: TableContext,
    *,
    is_log: bool,
    promise: str,
) -> Prepared:
    def predicted(_chip: Chip) -> FloatArray:
        return seconds

    return Prepared(
        name=name,
        chip=chip_for(given),
        unit="s",
        kinds=rows.kinds,
        whats=tuple(f"{label} ({how})" for label, how in zip(rows.labels(), ran, strict=True)),
        measured=rows.measured_s,
        predicted=predicted,
        is_of_chip=is_log and given.chip is not None,
        promise=promise,
    )


def prepare_one_node(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    return prepared_collectives(measurements, given, one_node_rows(measurements))


def prepare_nodes(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    return prepared_collectives(measurements, given, nodes_rows(measurements))


sets.register("collectives")(
    Format(
        needed=ONE_NODE, summary=f"medians of nccl-tests in one node: {', '.join(ONE_NODE)}", prepare=prepare_one_node
    )
)
sets.register("collectives-nodes")(
    Format(needed=NODES, summary=f"collectives over several nodes: {', '.join(NODES)}", prepare=prepare_nodes)
)
