"""The options of `dovetail pareto`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.codesign_options import (
    AREA_HELP,
    BASE_HELP,
    DEVICES_HELP,
    ENDPOINT_HELP,
    JSON_HELP,
    NETWORK_HELP,
    POWER_HELP,
    PRESET_HELP,
    SPEC_HELP,
    STORE_HELP,
    said_of,
)
from dovetail.cli.engines import CLUSTER_HELP, WORKERS_HELP, engine_asked
from dovetail.cli.html_option import Html
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.fronts import ParetoAsked

AXES_HELP = "Of throughput (or another metric), area, power, cost and energy, two or more; area to cost of all devices."
CSV_HELP = "Write every system of the front to this file."
SVG_HELP = "Draw the front, the first axis over each other one."


def pareto(
    spec: Annotated[str, typer.Argument(metavar="[MODEL|SPEC]", help=SPEC_HELP)] = "",
    axes: Annotated[str, typer.Option(metavar="NAMES", help=AXES_HELP)] = "throughput,area,power,cost",
    preset: Annotated[str, typer.Option(metavar="NAME", help=PRESET_HELP)] = "",
    base: Annotated[str, typer.Option(metavar="CHIP", help=BASE_HELP)] = "",
    network: Annotated[str, typer.Option(metavar="NAME", help=NETWORK_HELP)] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help=DEVICES_HELP)] = None,
    endpoint: Annotated[str, typer.Option(metavar="NAMES", help=ENDPOINT_HELP)] = "",
    area: Annotated[str, typer.Option(metavar="AREA", help=AREA_HELP)] = "",
    power: Annotated[str, typer.Option(metavar="POWER", help=POWER_HELP)] = "",
    batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    store: Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)] = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    cluster: Annotated[str, typer.Option(metavar="ADDRESS", help=CLUSTER_HELP)] = "",
    csv: Annotated[str, typer.Option(metavar="FILE", help=CSV_HELP)] = "",
    svg: Annotated[str, typer.Option(metavar="FILE", help=SVG_HELP)] = "",
    html: Html = "",
    top: Annotated[str, typer.Option(metavar="N", help="How many systems of the front to show.")] = "20",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Find every system that no other beats: the exact Pareto front.

    Of all systems of a space within the limits, those of which no other is as good or better on every axis, each with
    its best plan by equal stages. Bounds settle most; the rest are scored. Without a spec, a small example.
    """
    typed = dict(locals())  # of arguments alone, as nothing stands before
    from dovetail.cli.around import Terminal
    from dovetail.cli.pareto import answer

    terminal = Terminal(asked=engine_asked(workers, cluster), file=store)
    if not answer(_asked(typed), terminal, as_json=as_json, csv=csv, svg=svg, html=html):
        raise typer.Exit(EXIT_INFEASIBLE)


def _asked(typed: dict[str, Any]) -> ParetoAsked:
    """What was typed, with counts read."""
    from dovetail.api.fronts import ParetoAsked, axes_of
    from dovetail.cli.asked import count

    return ParetoAsked(
        spec=typed["spec"],
        said=said_of(typed),
        axes=axes_of(typed["axes"]),
        num_shown=count("--top", typed["top"]),
    )
