"""A network drawn: devices, switches and links, coloured by how busy they are in a collective or in a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations

import numpy as np

from dovetail.comm.events.unit_graphs import UnitGraph
from dovetail.comm.one_collective import NetworkAnswer
from dovetail.evaluate import Outcome
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import BETWEEN, HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Group
from dovetail.parallel.placement import Placement
from dovetail.parallel.pools import on_pools
from dovetail.report.charts.chart import WIDE, Chart, Figure, layout, said
from dovetail.report.charts.palette import BLUE, GREY, ORANGE, SKY, VERMILLION
from dovetail.report.labels import percent
from dovetail.report.table import Table
from dovetail.step.stage_steps import handed_over_s, stage_steps
from dovetail.step.work import COMM_AXES, Comm
from dovetail.units import format_rate

SWITCHED = ("switch", "fat-tree")
GROUPS = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}  # fields of Placement
# How many of a level are drawn: devices of the innermost, then groups, then groups of these.
MOST_INNER, MOST_GRID, MOST_OUTER, MOST_TOP = 8, 8, 4, 3
PLANE_GAP = 2.0  # between planes of a third dimension
# Shares of the time that a link is busy, from the least on, and the colour of such links.
LOADS = ((0.75, VERMILLION, "over 75 % busy"), (0.5, ORANGE, "50 to 75 %"), (0.25, SKY, "25 to 50 %"),
         (0.005, BLUE, "up to 25 %"), (0.0, "#aab3bc", "idle"))  # fmt: skip
USE_COLUMNS = ("kind", "devices", "per device", "carries", "in use")
POOL_WORDS = 3.5  # units beside pools, for the words on what joins them
MOST_PX = 620  # of one network; each further pool may have as much again
LEVEL_PX = 64  # of a unit upwards, where the picture is no grid
Load = Callable[[str, tuple[int, ...]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """A line: its dimension, where it goes, and the devices it is the link of; `width` counts what it stands for."""

    dimension: str
    ends: tuple[tuple[float, float], tuple[float, float]]
    devices: tuple[int, ...]
    words: str
    width: float = 1.6
    bend: float = 0.0  # how far its middle is above the straight line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is drawn of some dimensions: devices by number, switches, links, and words beside."""

    wide: float
    high: float
    devices: tuple[tuple[int, float, float], ...]
    switches: tuple[tuple[float, float, float, str], ...] = ()  # left, right, height and what it is
    links: tuple[_Link, ...] = ()
    words: tuple[tuple[float, float, str], ...] = ()
    boxes: tuple[tuple[float, float, float, float], ...] = ()
    bars: tuple[tuple[float, float, float, float], ...] = ()  # upright ones, that join what lies above each other
    is_grid: bool = False

    def moved(self, dx: float, dy: float, by: int) -> _Part:
        """Somewhere else, and of devices `by` numbers on."""
        return replace(
            self,
            devices=tuple((number + by, x + dx, y + dy) for number, x, y in self.devices),
            switches=tuple((left + dx, right + dx, y + dy, words) for left, right, y, words in self.switches),
            links=tuple(
                replace(
                    one,
                    ends=tuple((x + dx, y + dy) for x, y in one.ends),  # type: ignore[arg-type]
                    devices=tuple(number + by for number in one.devices),
                )
                for one in self.links
            ),
            words=tuple((x + dx, y + dy, text) for x, y, text in self.words),
            boxes=tuple((left + dx, bottom + dy, right + dx, top + dy) for left, bottom, right, top in self.boxes),
        )

    def place(self, number: int) -> tuple[float, float]:
        return next((x, y) for own, x, y in self.devices if own == number)


def drawn_network(parts: Sequence[Dimension | UnitGraph]) -> _Part:
    """Dimensions one around the other, innermost first; of many devices some of each level."""
    found = _Part(wide=0.0, high=0.0, devices=((0, 0.0, 0.0),))
    stride = 1
    for level, part in enumerate(parts):
        count = part.num_devices
        if count > 1:
            found = _around(found, part, level, stride)
        stride *= count
    return found


def drawn_pools(pools: Sequence[Cluster], between: Link) -> _Part:
    """Pools above each other, the first on top, each with its own network, and beside them what joins them."""
    parts = [drawn_network(pool.topology.dimensions) for pool in pools]
    numbers = [0, *accumulate(pool.num_devices for pool in pools)]
    side = max(part.wide for part in parts) + 1.5
    rate = f"{BETWEEN}: {format_rate(between.bandwidth_bytes_per_s, 'B/s')} per device"
    found = _Part(wide=side + POOL_WORDS, high=0.0, devices=())
    floor, middles = 0.0, []
    for place, (pool, part) in reversed(list(enumerate(zip(pools, parts, strict=True)))):
        top = part.high + (0.7 if part.is_grid else 0.5)
        own = replace(
            part,
            links=tuple(
                replace(one, dimension=f"{place} {one.dimension}", words=f"{pool.name}, {one.words}")
                for one in part.links
            ),
            words=(
                *part.words,
                (min(part.wide / 2, 4.5), -0.75, f"{said(pool.name)}: {pool.num_devices:,} x {said(pool.chip.name)}"),
            ),
            boxes=(*part.boxes, (-0.65, -1.05, part.wide + 0.65, top)),
        ).moved(0.0, floor + 1.05, numbers[place])
        middle = floor + 1.05 + part.high / 2
        middles.append(middle)
        join = _Link(
            dimension=BETWEEN, ends=((part.wide + 0.65, middle), (side, middle)), devices=(), words=rate, width=4.0
        )
        floor += top + 1.05 + 0.45
        found = replace(
            found,
            high=floor - 0.45,
            devices=(*found.devices, *own.devices),
            switches=(*found.switches, *own.switches),
            links=(*found.links, *own.links, join),
            words=(*found.words, *own.words),
            boxes=(*found.boxes, *own.boxes),
        )
    text = f"between pools<br>{format_rate(between.bandwidth_bytes_per_s, 'B/s')}<br>per device"
    return replace(
        found,
        bars=((side - 0.12, middles[0] - 0.4, side + 0.12, middles[-1] + 0.4),),
        words=(*found.words, (side + 0.6 + POOL_WORDS / 2, (middles[0] + middles[-1]) / 2, text)),
    )


def _around(inner: _Part, part: Dimension | UnitGraph, level: int, stride: int) -> _Part:
    is_grid = isinstance(part, Dimension) and part.kind in ("ring", "bidirectional-ring", "mesh")
    if isinstance(part, UnitGraph):
        return _graph(part) if level == 0 else _switched(inner, part, stride, level)
    if is_grid and (level == 0 or inner.is_grid):
        return _grid(inner, part, stride, level)
    return _switched(inner, part, stride, level)


def _shown(count: int, most: int) -> int:
    return count if count <= most else most - 1


def _link_label(part: Dimension | UnitGraph) -> str:
    if isinstance(part, UnitGraph):
        return part.name
    return f"{part.name}: {format_rate(part.link.bandwidth_bytes_per_s, 'B/s')} per device"


def _grid(inner: _Part, part: Dimension, stride: int, level: int) -> _Part:
    """Along x, then along y, then in planes behind each other; what goes round has an arc."""
    num = _shown(part.num_devices, MOST_GRID if level < 2 else MOST_OUTER)
    step_x, step_y = ((inner.wide + 1.0, 0.0), (0.0, inner.high + 1.0), (inner.wide + PLANE_GAP, 0.0))[min(level, 2)]
    copies = [inner.moved(place * step_x, place * step_y, place * stride) for place in range(num)]
    links = [link for copy in copies for link in copy.links]
    words = _link_label(part)
    is_plane = level >= 2  # of a third dimension, links of the devices on top are drawn, around the planes
    highest = max(y for _, _, y in inner.devices)
    firsts = [one for one in inner.devices if not is_plane or (one[2] == highest and one[1] in (0.0, inner.wide))]
    for number, x, y in firsts:
        for place in range(num - 1):
            ends = (
                (x + place * step_x, y + place * step_y),
                (x + (place + 1) * step_x, y + (place + 1) * step_y),
            )
            own = (number + place * stride, number + (place + 1) * stride)
            bend = 0.55 if is_plane else 0.0
            links.append(_Link(dimension=part.name, ends=ends, devices=own, words=words, bend=bend))
        if part.kind != "mesh" and part.num_devices > 2 and num == part.num_devices:
            ends = ((x, y), (x + (num - 1) * step_x, y + (num - 1) * step_y))
            own = (number, number + (num - 1) * stride)
            links.append(_Link(dimension=part.name, ends=ends, devices=own, words=words, bend=1.0 if is_plane else 0.3))
    wide, high = inner.wide + (num - 1) * step_x, inner.high + (num - 1) * step_y + (0.9 if is_plane else 0.0)
    more: tuple[tuple[float, float, str], ...] = ()
    if num < part.num_devices:
        text = f"+ {part.num_devices - num} along {said(part.name)}"
        more = (
            ((0.9, high + 0.55, text),)
            if level == 1
            else ((wide + (1.2 if level else 0.0), -0.55 if not level else high / 2, text),)
        )
    return _Part(
        wide=wide,
        high=high,
        devices=tuple(one for copy in copies for one in copy.devices),
        links=tuple(links),
        words=(*(word for word in copies[0].words), *more),
        is_grid=True,
    )


def _switched(inner: _Part, part: Dimension | UnitGraph, stride: int, level: int) -> _Part:
    """Copies side by side under a switch, or joined each with each."""
    num = _shown(part.num_devices, (MOST_INNER, MOST_OUTER)[level] if level < 2 else MOST_TOP)
    if level == 0 and part.num_devices <= 2 * MOST_INNER:
        num = part.num_devices
    is_leaf = len(inner.devices) == 1
    gap = 1.0 if is_leaf else 1.7
    step = inner.wide + gap
    copies = [inner.moved(place * step, 0.0, place * stride) for place in range(num)]
    wide = inner.wide + (num - 1) * step
    kind = part.kind if isinstance(part, Dimension) else "graph"
    is_full = kind == "fully-connected"
    top = inner.high + (1.0 if is_leaf else 1.5) + (0.12 * num if is_full and is_leaf else 0.0)
    links = [link for copy in copies for link in copy.links]
    words = _link_label(part)
    tops = [place * step + inner.wide / 2 for place in range(num)]
    base = inner.high + (0.1 if is_leaf else 0.36 if inner.boxes else 0.2)
    members = [tuple(number for number, _, _ in copy.devices) for copy in copies]
    thick = 1.8 if is_leaf else 4.0
    switches: tuple[tuple[float, float, float, str], ...] = ()
    aside = 0.8 if is_leaf else 1.7
    if is_full:
        for one, other in combinations(range(num), 2):
            ends = ((tops[one], base), (tops[other], base))
            own = (members[one][0], members[other][0])
            bend = 0.10 + 0.16 * (other - one)
            links.append(_Link(dimension=part.name, ends=ends, devices=own, words=words, bend=bend, width=thick * 0.6))
        top = base + 0.1 + 0.08 * num
    else:
        switches = (
            (-0.2, wide + 0.2 + (aside + 0.5 if part.num_devices > num else 0.0), top, f"{said(part.name)}, {kind}"),
        )
        for x, all_own in zip(tops, members, strict=True):
            about = words if is_leaf else f"{words}, {stride} devices"
            ends = ((x, base), (x, top - 0.16))
            links.append(_Link(dimension=part.name, ends=ends, devices=all_own, words=about, width=thick))
    left_out = part.num_devices - num
    noun = "device" if is_leaf else "group"
    text = f"+ {left_out:,}<br>{noun}{'s' if left_out > 1 else ''}"
    more = ((wide + aside, inner.high / 2, text),) if left_out else ()
    boxes = tuple(box for copy in copies for box in copy.boxes)
    if is_leaf:
        boxes = ((-0.42, -0.42, wide + 0.42 + (aside + 0.5 if left_out else 0.0), top + 0.36),)
    return _Part(
        wide=wide + (aside + 0.7 if left_out else 0.0),
        high=top + (0.15 if is_full else 0.0),
        devices=tuple(one for copy in copies for one in copy.devices),
        switches=(*(one for copy in copies for one in copy.switches), *switches),
        links=tuple(links),
        words=(*(word for copy in copies for word in copy.words), *more),
        boxes=boxes,
    )


def _graph(part: UnitGraph) -> _Part:
    """Devices in a row and switches above them, as far up as they are from devices."""
    num = min(part.num_devices, 4 * MOST_INNER)
    places: dict[int, tuple[float, float]] = {device: (float(device), 0.0) for device in range(num)}
    above: dict[int, set[int]] = {}
    for wire in part.wires:
        above.setdefault(wire.source, set()).add(wire.target)
    row, rank = list(range(num)), 0.0
    while True:
        after = sorted(
            {other for one in row for other in above.get(one, ()) if other not in places and other >= part.num_devices}
        )
        if not after:
            break
        rank += 1.3
        for turn, switch in enumerate(after):
            places[switch] = ((turn + 0.5) * num / len(after) - 0.5, rank)
        row = after
    links = []
    for wire in part.wires:
        if wire.source < wire.target and wire.source in places and wire.target in places:
            ends = (places[wire.source], places[wire.target])
            rate = format_rate(wire.link.bandwidth_bytes_per_s, "B/s")
            own = (wire.source, wire.target)
            links.append(_Link(dimension=part.name, ends=ends, devices=own, words=f"{part.name}: {rate}", width=1.4))
    switches = tuple((x - 0.25, x + 0.25, y, f"switch {v - part.num_devices}") for v, (x, y) in places.items() if y)
    return _Part(
        wide=num - 1.0,
        high=rank + 0.3,
        devices=tuple((d, float(d), 0.0) for d in range(num)),
        switches=switches,
        links=tuple(links),
    )


def _bent(one: _Link) -> Iterator[tuple[float | None, float | None]]:
    (x0, y0), (x1, y1) = one.ends
    if not one.bend:
        yield from ((x0, y0), (x1, y1), (None, None))
        return
    is_flat = abs(x1 - x0) >= abs(y1 - y0)
    for turn in range(13):
        share = turn / 12
        lift = one.bend * 4 * share * (1 - share)
        yield (
            round(x0 + share * (x1 - x0) + (0 if is_flat else lift), 4),
            round(y0 + share * (y1 - y0) + (lift if is_flat else 0), 4),
        )
    yield None, None


def _chart(part: _Part, load: Load, *, name: str, title: str, alt: str, table: Table) -> Chart:
    """Links by how busy they are, devices and switches on top of them."""
    by_load: dict[str, list[tuple[_Link, float]]] = {}
    for one in part.links:
        share = load(one.dimension, one.devices)
        label = next(words for least, _, words in LOADS if share >= least)
        by_load.setdefault(label, []).append((one, share))
    data: list[Figure] = []
    for _, colour, label in reversed(LOADS):
        if label not in by_load:
            continue
        for width in sorted({one.width for one, _ in by_load[label]}):
            points = [point for one, _ in by_load[label] if one.width == width for point in _bent(one)]
            data.append({
                "type": "scatter", "mode": "lines", "name": label, "legendgroup": label,
                "showlegend": not any(t.get("legendgroup") == label for t in data),
                "x": [x for x, _ in points], "y": [y for _, y in points], "hoverinfo": "skip",
                "line": {"color": colour, "width": width},
            })  # fmt: skip
    data.append(_middles([pair for pairs in by_load.values() for pair in pairs]))
    data.append({
        "type": "scatter", "mode": "markers", "name": "device", "x": [x for _, x, _ in part.devices],
        "y": [y for _, _, y in part.devices], "text": [f"device {number}" for number, _, _ in part.devices],
        "marker": {"symbol": "square", "size": _square_px(part), "color": GREY},
        "hovertemplate": "%{text}<extra></extra>",
    })  # fmt: skip
    shapes = [_box(*box) for box in part.boxes]
    shapes += [_bar(left, y - 0.16, right, y + 0.16) for left, right, y, _ in part.switches]
    shapes += [_bar(*bar) for bar in part.bars]
    words = [
        {
            "x": (left + right) / 2,
            "y": y,
            "text": text,
            "showarrow": False,
            "yanchor": "middle",
            "font": {"size": 10, "color": "#ffffff"},
        }
        for left, right, y, text in part.switches
        if (right - left) * _scale(part) > 6.5 * len(text)
    ]
    words += [{"x": x, "y": y, "text": text, "showarrow": False, "font": {"size": 11}} for x, y, text in part.words]
    axes = {"visible": False, "showgrid": False, "zeroline": False}
    left, right = -0.7, part.wide + 0.7 + (2.0 if part.is_grid and any(x > part.wide for x, _, _ in part.words) else 0)
    low = -1.0 if part.is_grid else -0.6
    up_px = _scale(part) if part.is_grid else LEVEL_PX
    shown = layout(
        meta=WIDE,
        height=int(min(MOST_PX * max(1, len(part.bars) + 1), max(190, 90 + (part.high + 0.6 - low) * up_px))),
        showlegend=True,
        shapes=shapes,
        annotations=words,
        xaxis={**axes, "range": [left, right]},
        yaxis={**axes, "range": [low, part.high + 0.6], **({"scaleanchor": "x"} if part.is_grid else {})},
    )
    return Chart(name=name, title=title, alt=alt, figure={"data": data, "layout": shown}, table=table)


def _scale(part: _Part) -> float:
    """Pixels of a unit, about."""
    return min(820 / (part.wide + 2.0), 60.0 if part.is_grid else 90.0)


def _square_px(part: _Part) -> float:
    return max(4.0, min(16.0, 0.36 * _scale(part)))


def _middles(pairs: Sequence[tuple[_Link, float]]) -> Figure:
    """What to point at: the middle of every link says what it is and how busy."""
    places = [list(_bent(one))[:-1] for one, _ in pairs]
    middles = [
        points[len(points) // 2] if one.bend else ((points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2)  # type: ignore[operator]
        for (one, _), points in zip(pairs, places, strict=True)
    ]
    return {
        "type": "scatter", "mode": "markers", "name": "", "showlegend": False,
        "x": [x for x, _ in middles], "y": [y for _, y in middles],
        "text": [f"{said(one.words)}<br>{percent(share)} busy" for one, share in pairs],
        "marker": {"size": 12, "opacity": 0.0, "color": GREY},
        "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


def _bar(left: float, bottom: float, right: float, top: float) -> Figure:
    return {**_rectangle(left, bottom, right, top), "fillcolor": "#4a5560", "line": {"width": 0}}


def _box(left: float, bottom: float, right: float, top: float) -> Figure:
    return {
        **_rectangle(left, bottom, right, top),
        "layer": "below",
        "line": {"width": 1, "color": "#aab3bc", "dash": "dot"},
    }


def _rectangle(left: float, bottom: float, right: float, top: float) -> Figure:
    return {"type": "rect", "x0": left, "x1": right, "y0": bottom, "y1": top}


def step_topology(outcome: Outcome) -> tuple[Chart, ...]:
    """The network of a cluster by how much of a step each of its dimensions is in use; nothing of one device.

    Of a dimension that several axes lie on, their uses are added: what is in use at the most.
    """
    cluster = outcome.cluster
    if cluster.num_devices == 1:
        return ()
    if isinstance(cluster, HeterogeneousCluster):
        return (_pools_chart(outcome, cluster),)
    uses, rows = _dimension_uses(cluster, outcome.placement, outcome.step.comm, outcome.step.step_s)
    busiest = max(uses, key=lambda name: uses[name])
    chart = _chart(
        drawn_network(cluster.topology.dimensions), lambda dimension, _: uses[dimension],
        name="topology", title=f"The network of {cluster.name}, by use in a step",
        alt=f"{cluster.num_devices:,} devices; {busiest} is most in use, up to {percent(uses[busiest])} of the step.",
        table=Table(title="Dimensions of the network", columns=("", *USE_COLUMNS), rows=rows, align="llrrlr"),
    )  # fmt: skip
    return (chart,)


def _dimension_uses(
    pool: Cluster, placement: Placement, comm: Sequence[Comm], step_s: float
) -> tuple[dict[str, float], tuple[tuple[str, ...], ...]]:
    """By dimension of one pool how much of a step it is in use, and its row of a table."""
    uses = {one.name: 0.0 for one in pool.topology.dimensions}
    whose: dict[str, list[str]] = {name: [] for name in uses}
    for axis_name, one_comm in zip(COMM_AXES, comm, strict=True):
        busy_s = float(one_comm.exposed_s + one_comm.hidden_s)
        group: Group = getattr(placement, GROUPS[axis_name])
        for dimension in dict.fromkeys(span.dimension.name for span in group if span.num_ranks > 1):
            if busy_s > 0:
                uses[dimension] = min(1.0, uses[dimension] + busy_s / step_s)
                whose[dimension].append(axis_name)
    rows = tuple(
        (
            one.name, one.kind, f"{one.num_devices:,}", format_rate(one.link.bandwidth_bytes_per_s, "B/s"),
            ", ".join(whose[one.name]) or "-", percent(uses[one.name]),
        )
        for one in pool.topology.dimensions
    )  # fmt: skip
    return uses, rows


def _pools_chart(outcome: Outcome, cluster: HeterogeneousCluster) -> Chart:
    """Pools with what joins them: of each the stage that talks most along an axis, and stages that hand over."""
    job = (outcome.workload.training_graph(), outcome.plan, cluster, outcome.workload.precision)
    *within_s, between_s = handed_over_s(*job)
    step_s, stage_pools = outcome.step.step_s, on_pools(outcome.plan, cluster).stage_pools
    stages = stage_steps(*job)
    uses: dict[str, float] = {BETWEEN: min(1.0, between_s / step_s)}
    rows: list[tuple[str, ...]] = []
    for place, (pool, placement) in enumerate(zip(cluster.pools, outcome.placements, strict=True)):
        own = [stage.comm for stage in stages if stage_pools[stage.first_stage] == place]
        most = [max(axis, key=lambda comm: comm.exposed_s + comm.hidden_s) for axis in zip(*own, strict=True)]
        most[COMM_AXES.index("pp")] = Comm(exposed_s=within_s[place] if place < len(within_s) else 0.0)
        found, own_rows = _dimension_uses(pool, placement, most, step_s)
        uses |= {f"{place} {name}": share for name, share in found.items()}
        rows += [(pool.name, *row) for row in own_rows]
    rate = format_rate(cluster.between.bandwidth_bytes_per_s, "B/s")
    rows.append(("between pools", "", "", "", rate, "pp" if between_s else "-", percent(uses[BETWEEN])))
    names = {f"{place} {one.name}": f"{one.name} of {pool.name}" for place, pool in enumerate(cluster.pools)
             for one in pool.topology.dimensions} | {BETWEEN: "the network between pools"}  # fmt: skip
    busiest = max(uses, key=lambda name: uses[name])
    return _chart(
        drawn_pools(cluster.pools, cluster.between), lambda dimension, _: uses[dimension],
        name="topology", title=f"The networks of {cluster.name}, by use in a step",
        alt=f"{len(cluster.pools)} pools of {cluster.num_devices:,} devices together; {names[busiest]} is most in use,"
        f" up to {percent(uses[busiest])} of the step.",
        table=Table(
            title="Dimensions of the networks", columns=("pool", "", *USE_COLUMNS), rows=tuple(rows), align="lllrrlr"
        ),
    )  # fmt: skip


def collective_topology(answer: NetworkAnswer) -> tuple[Chart, ...]:
    """The network of a collective by how busy its links were; nothing where no events say."""
    if not answer.timeline or answer.job.network.graph.num_devices == 1:
        return ()
    graph, [timeline] = answer.job.network.graph, answer.timeline
    shares = timeline.link_busy_s / answer.time_s if answer.time_s else timeline.link_busy_s * 0.0
    part = drawn_network(answer.job.network.parts)
    busiest = max(answer.loads, key=lambda one: one.most_frac)
    chart = _chart(
        part, _link_shares(graph.source, graph.target, shares, part, _first_links(answer)),
        name="topology", title="The network, by how busy links were",
        alt=f"{graph.num_devices:,} devices; the busiest link is of {busiest.dimension}, busy"
        f" {percent(busiest.most_frac)} of the time.",
        table=Table(
            title="How busy links were", columns=("dimension", "kind", "devices", "on the mean", "busiest"),
            rows=tuple(
                (one.dimension, one.kind, f"{one.num_devices:,}", percent(one.mean_frac), percent(one.most_frac))
                for one in answer.loads
            ),
            align="llrrr",
        ),
    )  # fmt: skip
    return (chart,)


def _first_links(answer: NetworkAnswer) -> Mapping[str, tuple[int, int]]:
    """By dimension, the numbers of its links."""
    graph = answer.job.network.graph
    ends = {}
    for block in graph.blocks:
        last = block.first_link + block.num_links * (graph.num_devices // block.num_devices)
        ends[block.name] = (block.first_link, last)
    return ends


def _link_shares(
    source: np.ndarray, target: np.ndarray, shares: np.ndarray, part: _Part, ends: Mapping[str, tuple[int, int]]
) -> Load:
    """How busy what is drawn as one line was: the busiest of both ways, and of all devices that it stands for."""
    numbers = np.array([number for number, _, _ in part.devices])
    found: dict[tuple[str, int], float] = {}
    pairs: dict[tuple[str, int, int], float] = {}
    for dimension, (first, last) in ends.items():
        is_seen = np.isin(source[first:last], numbers) | np.isin(target[first:last], numbers)
        for link in (first + np.flatnonzero(is_seen)).tolist():
            one, other, share = int(source[link]), int(target[link]), float(shares[link])
            for end in (one, other):
                found[dimension, end] = max(found.get((dimension, end), 0.0), share)
            key = (dimension, min(one, other), max(one, other))
            pairs[key] = max(pairs.get(key, 0.0), share)

    def share_of(dimension: str, devices: tuple[int, ...]) -> float:
        if len(devices) == 2:
            pair = pairs.get((dimension, min(devices), max(devices)))
            if pair is not None:
                return pair
        return max((found.get((dimension, number), 0.0) for number in devices), default=0.0)

    return share_of
