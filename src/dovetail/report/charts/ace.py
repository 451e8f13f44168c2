"""The figures of ACE, ours: sweeps as curves, and iterations as stacked bars."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.curves import curves_chart
from dovetail.report.charts.palette import BLUE, VERMILLION
from dovetail.report.curves import Curve, Panel
from dovetail.report.labels import number
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import MEBI, format_rate, format_s


def ace_charts(record: Record) -> tuple[Chart, ...]:
    """Of a record as `report.reproduction.ace_record` gives it."""
    sweeps = (
        ("ace-memory", "Network by memory bandwidth", "memory bandwidth", record["by_memory"], _rate),
        ("ace-sms", "Network by SMs for communication", "SMs", record["by_sms"], number),
    )
    found = [curves_chart(_panel(title, across, points, words), name) for name, title, across, points, words in sweeps]
    found.append(curves_chart(_grid(record["grid"]), "ace-engine"))
    return (*found, *(_iterations(one, index) for index, one in enumerate(record["workloads"])))


def _rate(value: float) -> str:
    return format_rate(value, "B/s", 0)


def _panel(title: str, across: str, points: Sequence[Record], words: object) -> Panel:
    curves = tuple(
        Curve(name=name, points=tuple((point["at"], point[key]) for point in points if point["at"] > 0))
        for name, key in (("baseline", "baseline_bytes_per_s"), ("ACE", "ace_bytes_per_s"))
    )
    assert callable(words)
    return Panel(
        title=title, x_name=across, y_name="network, B/s", x_label=words, y_words=_rate, curves=curves, is_y_log=False
    )


def _grid(points: Sequence[Record]) -> Panel:
    sizes = sorted({point["sram_bytes"] for point in points})
    curves = tuple(
        Curve(
            name=f"{size / MEBI:.0f} MiB of SRAM",
            points=tuple((p["num_fsms"], p["network_bytes_per_s"]) for p in points if p["sram_bytes"] == size),
        )
        for size in sizes
    )
    return Panel(
        title="Network by the engine's size",
        x_name="FSMs",
        y_name="network, B/s",
        x_label=number,
        y_words=_rate,
        curves=curves,
        is_y_log=False,
    )


def _iterations(one: Record, index: int) -> Chart:
    bars = [(size["num_devices"], c) for size in one["sizes"] for c in size["configurations"]]
    labels = [f"{num_devices} NPUs, {c['configuration']}" for num_devices, c in bars]
    columns = {
        "compute": ((BLUE, ""), [c["compute_s"] for _, c in bars]),
        "exposed communication": ((VERMILLION, ""), [c["exposed_s"] for _, c in bars]),
    }
    last = one["sizes"][-1]
    return Chart(
        name=f"ace-iteration-{index}",
        title=f"{one['workload']}: an iteration",
        alt=f"On {last['num_devices']} NPUs ACE is {last['speedup']:.2f} times as fast as {one['best_baseline']}.",
        figure=stacked(labels, columns, "one iteration", tickformat="~s", ticksuffix="s"),
        table=Table(
            title="Iterations",
            columns=("", "compute", "exposed", "in all"),
            rows=tuple(
                (label, format_s(c["compute_s"]), format_s(c["exposed_s"]), format_s(c["iteration_s"]))
                for label, (_, c) in zip(labels, bars, strict=True)
            ),
            align="lrrr",
        ),
    )
