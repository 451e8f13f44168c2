"""A chip drawn to scale beside another one: what its area model puts on the die, and watts and mm2 by part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.cost.area import Area, silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.tdp import tdp
from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import WIDE, Chart, Figure, layout, said
from dovetail.report.charts.palette import (
    BLUE,
    GREEN,
    GREY,
    INDIGO,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
)
from dovetail.report.labels import percent
from dovetail.report.silicon import PART_LABELS
from dovetail.report.table import Table

LOOKS = {
    "tensor": (BLUE, ""),
    "vector": (SKY, ""),
    "control": (GREY, ""),
    "register": (ORANGE, ""),
    "buffer": (YELLOW, ""),
    "vector_memory": ("#7fcdbb", ""),
    "sram": (GREEN, ""),
    "noc": (PURPLE, ""),
    "hbm": (VERMILLION, ""),
    "link": (INDIGO, ""),
    "other": (PALE, ""),
    "static": (PALE, ""),
    "arithmetic": (BLUE, ""),
    "operand": (ORANGE, ""),
    "lane": (SKY, ""),
}
CORE_PARTS = ("tensor", "vector", "vector_memory", "buffer", "register", "control")
# An HBM stack's outline is about 8 x 12 mm: an estimate, of HBM2; no data sheet that we could read states it, and later
# generations have packages of about 11 x 11 mm. It is for the eye alone: stacks are beside the die, and no area, cost
# or time is made of them. The picture's caption says so.
STACK_MM = (7.75, 11.87)
BY_COMPONENT = "dovetail"  # the area model whose parts are drawn
UNCORE_PARTS = ("sram", "noc", "hbm", "link")
GAP_MM, STACK_GAP_MM, DIE_GAP_MM = 5.0, 0.8, 0.3
MOST_UNDER_LABEL = 12  # cells: the lines between more of them make a label unreadable
LEAST_CELL_MM2 = 0.3  # of a unit that is drawn by itself
WIDE_PX, LETTER_PX, LINE_PX = 820, 6.6, 13.0  # of the drawing, and of a label in it
SHORT_LABELS = {
    "tensor": "tensor", "vector": "vector", "sram": "SRAM", "link": "links", "buffer": "buffers",
    "register": "registers", "vector_memory": "vector memory", "noc": "NoC", "control": "control",
}  # fmt: skip
Box = tuple[float, float, float, float]  # left, bottom, right and top, in mm


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One rectangle of a part."""

    part: str
    box: Box

    @property
    def area_mm2(self) -> float:
        left, bottom, right, top = self.box
        return (right - left) * (top - bottom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floorplan:
    """The dies of one package as tiles; `dies` are their outlines, `stacks` those of the memory beside them."""

    chip: Chip
    area: Area
    tiles: tuple[Tile, ...]
    dies: tuple[Box, ...]
    stacks: tuple[Box, ...]

    @property
    def box(self) -> Box:
        every = (*self.dies, *self.stacks)
        sides = list(zip(*every, strict=True))
        return min(sides[0]), min(sides[1]), max(sides[2]), max(sides[3])


def floorplan_of(chip: Chip) -> Floorplan:
    """Where the area model's parts could lie: the area of each is the model's, its place is a convention.

    Pads, clocks and what has no name around the rim; HBM PHYs left and right, links above and below; shared SRAM and
    the network on chip between two rows of cores. Raises `NotModelled` where the area is not modelled.
    """
    area = _area(chip)
    parts = {name: float(mm2) for name, mm2 in area.components()}
    die, x_mm = chip.die, 0.0
    tiles: list[Tile] = []
    dies: list[Box] = []
    is_split = die.num_io_dies > 0
    cores_mm2, total_mm2 = float(area.core_mm2), float(area.total_mm2)
    for number, of_dies in ((die.num_dies, "cores" if is_split else "all"), (die.num_io_dies, "uncore")):
        if not number:
            continue
        own = {name: mm2 / number for name, mm2 in parts.items()}
        if is_split:  # each kind of die has its share of what has no name
            kept = UNCORE_PARTS if of_dies == "uncore" else CORE_PARTS
            share = (cores_mm2 if of_dies == "cores" else float(area.uncore_mm2)) / (total_mm2 - parts["other"])
            own = {name: mm2 for name, mm2 in own.items() if name in kept} | {"other": share * own["other"]}
        side = math.sqrt(sum(own.values()))
        columns = next(count for count in range(1, number + 1) if count**2 >= number and number % count == 0)
        for place in range(number):
            row, column = divmod(place, columns)
            left, bottom = x_mm + column * (side + DIE_GAP_MM), row * (side + DIE_GAP_MM)
            box = (left, bottom, left + side, bottom + side)
            dies.append(box)
            tiles += _die_tiles(own, box, chip, number)
        x_mm += columns * (side + DIE_GAP_MM)
    return Floorplan(chip=chip, area=area, tiles=tuple(tiles), dies=tuple(dies), stacks=tuple(_stacks(chip, dies)))


def _area(chip: Chip) -> Area:
    """By component; raises where the chip has its area by another model, which would be another sum."""
    if chip.die.area_model != BY_COMPONENT:
        raise NotModelled(f"the area of {chip.name} comes from {chip.die.area_model}, which has no such parts")
    return silicon(inventory(chip))


def _die_tiles(own: dict[str, float], box: Box, chip: Chip, num_dies: int) -> Iterator[Tile]:
    """One die: rim, edges, and rows of cores with what they share between them."""
    left, bottom, right, top = box
    side = right - left
    inner = math.sqrt(side**2 - own["other"])
    rim = (side - inner) / 2
    yield Tile(part="other", box=(left, bottom, left + rim, top))
    yield Tile(part="other", box=(right - rim, bottom, right, top))
    yield Tile(part="other", box=(left + rim, bottom, right - rim, bottom + rim))
    yield Tile(part="other", box=(left + rim, top - rim, right - rim, top))
    left, bottom, right, top = left + rim, bottom + rim, right - rim, top - rim
    if own.get("hbm", 0.0):
        wide = own["hbm"] / 2 / (top - bottom)
        yield Tile(part="hbm", box=(left, bottom, left + wide, top))
        yield Tile(part="hbm", box=(right - wide, bottom, right, top))
        left, right = left + wide, right - wide
    if own.get("link", 0.0):
        high = own["link"] / 2 / (right - left)
        yield Tile(part="link", box=(left, bottom, right, bottom + high))
        yield Tile(part="link", box=(left, top - high, right, top))
        bottom, top = bottom + high, top - high
    cores_mm2 = sum(own.get(part, 0.0) for part in CORE_PARTS)
    half = cores_mm2 / 2 / (right - left)
    low = bottom + half
    for part in ("sram", "noc"):
        if own.get(part, 0.0):
            high = own[part] / (right - left)
            yield Tile(part=part, box=(left, low, right, low + high))
            low += high
    if cores_mm2:
        yield from _cores(own, (left, bottom, right, bottom + half), chip, num_dies, is_up=True)
        yield from _cores(own, (left, low, right, top), chip, num_dies, is_up=False)


def _cores(own: dict[str, float], box: Box, chip: Chip, num_dies: int, *, is_up: bool) -> Iterator[Tile]:
    """Half of the cores of a die: a row for each part of them, cut into as many cells as there are units."""
    left, bottom, right, top = box
    counts = {"tensor": chip.tensor.num_units, "vector": chip.vector.num_units}
    rows = [(part, own.get(part, 0.0) / 2 / (right - left)) for part in CORE_PARTS if own.get(part, 0.0)]
    at = bottom if is_up else top
    for part, high in rows:
        low, up = (at, at + high) if is_up else (at - high, at)
        count = max(1, math.ceil(counts.get(part, chip.vector.num_units) / num_dies / 2))
        is_fine = (right - left) * high / count < LEAST_CELL_MM2
        yield from _cells(part, (left, low, right, up), 1 if is_fine else count)
        at = up if is_up else low


def _cells(part: str, box: Box, count: int) -> Iterator[Tile]:
    """`box` cut into `count` equal cells, as near to squares as that goes."""
    left, bottom, right, top = box
    wide, high = right - left, top - bottom
    best = min(
        (num for num in range(1, count + 1) if count % num == 0),
        key=lambda num: abs(math.log((wide / (count // num)) / (high / num))),
    )
    across = count // best
    for row in range(best):
        for column in range(across):
            yield Tile(
                part=part,
                box=(
                    left + wide * column / across,
                    bottom + high * row / best,
                    left + wide * (column + 1) / across,
                    bottom + high * (row + 1) / best,
                ),
            )


def _stacks(chip: Chip, dies: Sequence[Box]) -> Iterator[Box]:
    """Memory beside the dies, half of it to the left and half to the right, in columns as high as the dies are."""
    left, bottom = min(die[0] for die in dies), min(die[1] for die in dies)
    right, top = max(die[2] for die in dies), max(die[3] for die in dies)
    wide, high = STACK_MM
    per_column = max(1, int((top - bottom + STACK_GAP_MM) // (high + STACK_GAP_MM)))
    num_left = -(-chip.die.num_hbm_stacks // 2)
    for number in range(chip.die.num_hbm_stacks):
        is_left = number < num_left
        place = number if is_left else number - num_left
        count = num_left if is_left else chip.die.num_hbm_stacks - num_left
        column, row = divmod(place, per_column)
        rows = min(per_column, count - column * per_column)
        first = (bottom + top - rows * high - (rows - 1) * STACK_GAP_MM) / 2
        y_mm = first + row * (high + STACK_GAP_MM)
        away = STACK_GAP_MM + column * (wide + STACK_GAP_MM)
        x_mm = left - away - wide if is_left else right + away
        yield x_mm, y_mm, x_mm + wide, y_mm + high


def floorplan(chip: Chip, baseline: Chip | None = None) -> tuple[Chart, ...]:
    """`chip` to scale, beside `baseline` at the same scale; no chart where the area of either is not modelled."""
    try:
        plans = [floorplan_of(one) for one in ((chip,) if baseline is None else (chip, baseline))]
    except NotModelled:
        return ()
    data: list[Figure] = []
    texts: list[tuple[float, float, str, str]] = []
    shapes: list[Figure] = []
    x_mm, top_mm, low_mm = 0.0, 0.0, 0.0
    placed: dict[str, list[tuple[Tile, float, Floorplan]]] = {}
    for plan in plans:
        left, bottom, right, top = plan.box
        shift = x_mm - left
        for tile in plan.tiles:
            placed.setdefault(tile.part, []).append((tile, shift, plan))
        shapes += [_outline(box, shift) for box in plan.stacks]
        middle = (min(die[0] for die in plan.dies) + max(die[2] for die in plan.dies)) / 2
        texts.append((middle + shift, top + 0.8, _name(plan), "bottom"))
        x_mm += right - left + GAP_MM
        top_mm, low_mm = max(top_mm, top), min(low_mm, bottom)
    for part in LOOKS:
        if part in placed:
            data.append(_tiles(part, placed[part]))
    end_mm = x_mm - GAP_MM
    span, high = end_mm + 2, top_mm - low_mm + 8.0
    height = int(min(640, max(280, WIDE_PX * high / span + 90)))
    px_per_mm = min(WIDE_PX / span, (height - 90) / high)
    axes = {"visible": False, "showgrid": False, "zeroline": False}
    shown = layout(
        meta=WIDE,
        height=height,
        showlegend=True,
        shapes=[*shapes, _ruler(low_mm)],
        annotations=[
            *(_words(x, y, text, anchor) for x, y, text, anchor in texts),
            *_labels(placed, px_per_mm),
            *_stack_labels(plans[0]),
            _words(5, low_mm - 1.4, "10 mm", "top"),
        ],
        xaxis={**axes, "range": [-1, end_mm + 1]},
        yaxis={**axes, "range": [low_mm - 3.2, top_mm + 4.8], "scaleanchor": "x"},
    )
    stacks = ", outlines of memory stacks an estimate" if any(one.stacks for one in plans) else ""
    names = " beside ".join(f"{one.chip.name}, {float(one.area.total_mm2):,.0f} mm²" for one in plans)
    return (
        Chart(
            name="floorplan",
            title="The chip, to scale" if len(plans) == 1 else f"{chip.name} and {plans[1].chip.name}, to one scale",
            alt=f"{names}: areas are the area model's, places are a convention{stacks}.",
            figure={"data": data, "layout": shown},
            table=_area_table([one.area for one in plans], [one.chip.name for one in plans]),
        ),
    )


def _name(plan: Floorplan) -> str:
    num = len(plan.dies)
    return f"<b>{said(plan.chip.name)}</b><br>{float(plan.area.total_mm2):,.0f} mm²" + (
        f", {num} dies" if num > 1 else ""
    )


def _tiles(part: str, placed: Sequence[tuple[Tile, float, Floorplan]]) -> Figure:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for tile, shift, _ in placed:
        left, bottom, right, top = tile.box
        xs += [
            round(left + shift, 4),
            round(right + shift, 4),
            round(right + shift, 4),
            round(left + shift, 4),
            round(left + shift, 4),
            None,
        ]
        ys += [round(bottom, 4), round(bottom, 4), round(top, 4), round(top, 4), round(bottom, 4), None]
    label = PART_LABELS[part]
    by_chip: dict[str, float] = {}
    for _, _, plan in placed:
        by_chip[plan.chip.name] = float(dict(plan.area.components())[part])
    words = "<br>".join(f"{said(name)}: {mm2:,.1f} mm²" for name, mm2 in by_chip.items())
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": xs,
        "y": ys,
        "fill": "toself",
        "fillcolor": LOOKS[part][0],
        "line": {"color": "#ffffff", "width": 0.6},
        "hoverinfo": "text",
        "hoveron": "fills",
        "text": f"{label}<br>{words}",
    }


def _labels(placed: dict[str, list[tuple[Tile, float, Floorplan]]], px_per_mm: float) -> Iterator[Figure]:
    """Names of parts, once on each chip and only where they fit: in the lower row of cores of its first die."""
    for part, tiles in placed.items():
        for plan in {id(one[2]): one[2] for one in tiles}.values():
            die = next(die for die in plan.dies if any(_lies_in(one[0].box, die) and one[2] is plan for one in tiles))
            own = [one for one in tiles if one[2] is plan and _lies_in(one[0].box, die)]
            low = min(one[0].box[1] for one in own)
            row = [one for one in own if one[0].box[1] <= low + 1e-6] if part != "tensor" else own  # style: a tolerance
            middle = (die[1] + die[3]) / 2
            row = [one for one in row if one[0].box[1] < middle or part in UNCORE_PARTS]
            if part not in SHORT_LABELS or part == "hbm" or not row:
                continue
            left, right = min(one[0].box[0] for one in row), max(one[0].box[2] for one in row)
            bottom, top = min(one[0].box[1] for one in row), max(one[0].box[3] for one in row)
            name = SHORT_LABELS[part]
            if len(row) > MOST_UNDER_LABEL:
                continue
            if (top - bottom) * px_per_mm < LINE_PX or (right - left) * px_per_mm < LETTER_PX * len(name):
                continue
            colour = "#ffffff" if part in ("tensor", "sram", "link") else "#11151a"
            yield {
                "x": (left + right) / 2 + row[0][1], "y": (bottom + top) / 2, "text": name, "showarrow": False,
                "font": {"size": 11, "color": colour},
            }  # fmt: skip


def _lies_in(box: Box, die: Box) -> bool:
    x_mm, y_mm = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return die[0] <= x_mm <= die[2] and die[1] <= y_mm <= die[3]


def _outline(box: Box, shift: float) -> Figure:
    left, bottom, right, top = box
    line = {"width": 1.2, "dash": "dot", "color": GREY}
    return {"type": "rect", "x0": left + shift, "x1": right + shift, "y0": bottom, "y1": top, "line": line}


def _stack_labels(plan: Floorplan) -> Iterator[Figure]:
    if plan.stacks:
        left, bottom, right, top = plan.stacks[0]
        x_mm = (left + right) / 2 - plan.box[0]
        yield _words(x_mm, (bottom + top) / 2, "HBM<br>stack", "middle", GREY)


def _ruler(low_mm: float) -> Figure:
    return {"type": "line", "x0": 0, "x1": 10, "y0": low_mm - 1.1, "y1": low_mm - 1.1, "line": {"width": 2}}


def _words(x: float, y: float, text: str, anchor: str, colour: str = "") -> Figure:
    font = {"size": 12} | ({"color": colour} if colour else {})
    return {"x": x, "y": y, "text": text, "showarrow": False, "yanchor": anchor, "font": font}


def area_by_part(chips: Sequence[Chip]) -> tuple[Chart, ...]:
    """mm2 of each chip by part; no chart where one is not modelled."""
    try:
        areas = [_area(chip) for chip in chips]
    except NotModelled:
        return ()
    return (
        _parts(
            chips, [area.components() for area in areas], "area", "mm²", _area_table(areas, [c.name for c in chips])
        ),
    )


def power_by_part(chips: Sequence[Chip]) -> tuple[Chart, ...]:
    """Watts of each chip with everything busy, by part; no chart where one is not modelled."""
    try:
        powers = [tdp(chip) for chip in chips]
    except NotModelled:
        return ()
    table = _table("Power with everything busy", "W", [power.components() for power in powers], [c.name for c in chips])
    return (_parts(chips, [power.components() for power in powers], "power", "W", table),)


def _parts(
    chips: Sequence[Chip], amounts: Sequence[Sequence[tuple[str, object]]], what: str, unit: str, table: Table
) -> Chart:
    by_chip = [{name: float(value) for name, value in one} for one in amounts]  # type: ignore[arg-type]
    names = [name for name in by_chip[0] if any(one[name] > 0 for one in by_chip)]
    columns = {PART_LABELS[name]: (LOOKS[name], [one[name] for one in by_chip]) for name in names}
    figure = stacked([chip.name for chip in chips], columns, f"{what}, {unit}", hover=f"%{{x:,.1f}} {unit}")
    first = by_chip[0]
    most = max(names, key=lambda name: first[name])
    whole = sum(first.values())
    return Chart(
        name=f"{what}-by-part",
        title=f"{what.capitalize()} by part",
        alt=f"{chips[0].name} comes to {whole:,.0f} {unit}; most is {PART_LABELS[most]},"
        f" {percent(first[most] / whole, 0)}.",
        figure=figure,
        table=table,
    )


def _area_table(areas: Sequence[Area], names: Sequence[str]) -> Table:
    return _table("Area by part", "mm²", [area.components() for area in areas], names)


def _table(title: str, unit: str, amounts: Sequence[Sequence[tuple[str, object]]], names: Sequence[str]) -> Table:
    by_chip = [{name: float(value) for name, value in one} for one in amounts]  # type: ignore[arg-type]
    wholes = [sum(one.values()) for one in by_chip]
    rows = [
        (
            PART_LABELS[part],
            *(f"{one[part]:,.1f} ({percent(one[part] / whole)})" for one, whole in zip(by_chip, wholes, strict=True)),
        )
        for part in by_chip[0]
        if any(one[part] > 0 for one in by_chip)
    ]
    rows.append(("in all", *(f"{whole:,.1f}" for whole in wholes)))
    return Table(title=f"{title}, {unit}", columns=("part", *names), rows=tuple(rows), align="l" + "r" * len(names))
