"""The options of `dovetail pareto`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli import joint_options as joint
from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.engines import DASK_HELP, WORKERS_HELP, EngineAsked, engine_asked
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.fronts import ParetoAsked
    from dovetail.files.codesign import CodesignSaid

AXES_HELP = "Of throughput (or another metric), area, power, cost and energy, two or more; area to cost of all devices."
CSV_HELP = "Write every system of the front to this file."
PLOT_HELP = "Draw the front, the first axis over each other one, as .svg."


def pareto(
    spec: joint.Spec = "",
    axes: Annotated[str, typer.Option(metavar="NAMES", help=AXES_HELP)] = "throughput,area,power,cost",
    preset: joint.Preset = "",
    base: joint.Base = "",
    network: joint.Network = "",
    devices: joint.Devices = None,
    endpoint: joint.Endpoint = "",
    area: joint.Area = "",
    power: joint.Power = "",
    batch: joint.Batch = None,
    seq: joint.Seq = None,
    store: joint.Store = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    dask: Annotated[str, typer.Option(metavar="ADDRESS", help=DASK_HELP)] = "",
    csv: Annotated[str, typer.Option(metavar="FILE", help=CSV_HELP)] = "",
    plot: Annotated[str, typer.Option(metavar="FILE", help=PLOT_HELP)] = "",
    html: Html = "",
    top: Annotated[str, typer.Option(metavar="N", help="How many systems of the front to show.")] = "20",
    as_json: AsJson = False,
) -> None:
    """Find every system that no other beats: the exact Pareto front.

    Of all systems of a space within the limits, those of which no other is as good or better on every axis, each with
    its best plan by equal stages. Bounds settle most; the rest are scored. Without a spec, a small example.
    """
    return _answered(
        engine_asked(workers, dask),
        _asked(
            spec,
            joint.said_of(
                preset=preset, base=base, network=network, devices=devices, endpoint=endpoint, area=area, power=power,
                batch=batch, seq=seq,
            ),
            axes=axes, top=top,
        ),
        store=store, csv=csv, plot=plot, html=html, as_json=as_json,
    )  # fmt: skip


def _answered(
    engine: EngineAsked, asked: ParetoAsked, *, store: str, csv: str, plot: str, html: str, as_json: bool
) -> None:
    from dovetail.cli.around import Terminal
    from dovetail.cli.pareto import answer

    if not answer(asked, Terminal(asked=engine, file=store), as_json=as_json, csv=csv, plot=plot, html=html):
        raise typer.Exit(EXIT_INFEASIBLE)


def _asked(spec: str, said: CodesignSaid, *, axes: str, top: str) -> ParetoAsked:
    """What was typed, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.fronts import ParetoAsked, axes_of

    return ParetoAsked(spec=spec, said=said, axes=axes_of(axes), num_shown=count("--top", top))
