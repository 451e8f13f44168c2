"""What a chip's silicon comes to: area, power and price by component, as data and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from dovetail.cost.area import silicon
from dovetail.cost.area_models import area_models
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.report.plain import Record
from dovetail.report.table import Table, bar

PART_LABELS = {
    "tensor": "tensor units",
    "vector": "vector lanes",
    "control": "control of the cores",
    "register": "register files",
    "buffer": "core buffers",
    "vector_memory": "vector memory",
    "sram": "shared SRAM",
    "noc": "network on chip",
    "hbm": "HBM",
    "link": "links and PCIe",
    "other": "clocks, pads, the rest",
    "static": "static",
    "arithmetic": "arithmetic",
    "operand": "operand delivery",
    "lane": "vector lanes busy",
    "dies": "dies",
    "package": "package and test",
}


def silicon_record(chip: Chip) -> Record:
    """Predicted area, power at peak rates and price of `chip`, each by component and in all, or why not."""
    try:
        parts = inventory(chip)
    except NotModelled as error:
        return {"why_not": error.message}
    area, power, cost = silicon(parts), tdp(chip), price(chip)
    return {
        "num_dies": chip.die.num_dies + chip.die.num_io_dies,
        "area_mm2": {name: float(part_mm2) for name, part_mm2 in area.components()},
        "area_model": chip.die.area_model,
        "total_mm2": area_models[chip.die.area_model](chip),
        "total_mm2_by_model": dict(_by_model(chip)),
        "power_w": {name: float(part_w) for name, part_w in power.components()},
        "predicted_tdp_w": float(power.total_w),
        "datasheet_tdp_w": chip.tdp_w,
        "price_usd": {name: float(part_usd) for name, part_usd in cost.components()},
        "total_usd": float(cost.total_usd),
    }


def _by_model(chip: Chip) -> Iterator[tuple[str, float]]:
    """The area that each area model gives; one that cannot express the chip is left out."""
    for name, area_mm2 in area_models.items():
        with suppress(InvalidInput, NotModelled):
            yield name, area_mm2(chip)


def silicon_tables(record: Record) -> tuple[Table, ...]:
    """Three short tables: where the area, the watts and the money go; one that says why there are none."""
    if "why_not" in record:
        return (Table(title="Silicon", notes=(record["why_not"],)),)
    dies = "one die" if record["num_dies"] == 1 else f"{record['num_dies']} dies"
    gap = record["predicted_tdp_w"] / record["datasheet_tdp_w"] - 1
    model = record["area_model"]
    others = {name: mm2 for name, mm2 in record["total_mm2_by_model"].items() if name != model}
    beside = f"{record['datasheet_tdp_w']:g} W in the figures above, {100 * gap:+.0f} %"
    return (
        replace(
            _parts(
                f"Area: {record['total_mm2']:,.0f} mm2 on {dies}, by {model}",
                "mm2",
                {name: mm2 for name, mm2 in record["area_mm2"].items() if mm2 or name != "vector_memory"},
            ),
            notes=tuple(f"{n}: {mm2:,.0f} mm2" for n, mm2 in others.items()),
        ),
        _parts(
            f"Power with everything busy: {record['predicted_tdp_w']:,.0f} W, predicted; {beside}",
            "W",
            {name: part_w for name, part_w in record["power_w"].items() if part_w or name != "vector_memory"},
        ),
        _parts(f"Cost to make: {record['total_usd']:,.0f} USD, predicted", "USD", record["price_usd"]),
    )


def _parts(title: str, unit: str, parts: dict[str, float]) -> Table:
    whole = sum(parts.values())
    rows = tuple(
        (
            PART_LABELS[name],
            f"{part:,.1f}" if part < 100 else f"{part:,.0f}",
            f"{100 * part / whole:.0f} %",
            bar(part / whole),
        )
        for name, part in parts.items()
    )
    return Table(title=title, columns=("part", unit, "share", ""), rows=rows, align="lrrl")
