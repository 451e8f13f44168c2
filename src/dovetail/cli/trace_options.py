"""The options of `dovetail trace`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html

TOPOLOGY_HELP = (
    'Dimensions, innermost first, such as "ring:8@50GB/s,500ns"; or a catalogue cluster, a YAML file with nodes and'
    " links, or an ASTRA-sim network file."
)
SYSTEM_HELP = "An ASTRA-sim system file: algorithms, chunks, queues, endpoint. Otherwise what suits each dimension."
GROUPS_HELP = 'The ranks of each process group that traces name: {"name": [0, 1], ...}.'
ENGINE_HELP = "events, or astra-sim for what that simulator would answer."
AWARE_HELP = "Of astra-sim's two back ends, the one that models congestion."
SLOW_HELP = "Ranks that compute at a share of the others' speed: 3=0.8,5=0.5."
PERFETTO_HELP = "Write a timeline of streams and links for ui.perfetto.dev."
CSV_HELP = "Write ranks as FILE.csv, links as FILE.links.csv and the critical path as FILE.critical.csv."
RANKS_HELP = "Whose timeline and links to write: 0-7 or 0,2. Otherwise all."

trace = typer.Typer(help="Run execution traces of all ranks on a network.", rich_markup_mode=None)


@trace.command()
def run(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="What stands before .0.et, .1.et, ...")],
    topology: Annotated[str, typer.Option(metavar="NETWORK", help=TOPOLOGY_HELP)] = "",
    system: Annotated[str, typer.Option(metavar="FILE", help=SYSTEM_HELP)] = "",
    groups: Annotated[str, typer.Option(metavar="FILE", help=GROUPS_HELP)] = "",
    engine: Annotated[str, typer.Option(metavar="ENGINE", help=ENGINE_HELP)] = "events",
    congestion_aware: Annotated[bool, typer.Option("--congestion-aware", help=AWARE_HELP)] = False,
    slow_ranks: Annotated[str, typer.Option(metavar="RANKS", help=SLOW_HELP)] = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    csv: Annotated[str, typer.Option(metavar="FILE", help=CSV_HELP)] = "",
    ranks: Annotated[str, typer.Option(metavar="RANKS", help=RANKS_HELP)] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Time Chakra traces, one of each rank, on a network.

    Shows when each rank ends, how much of that is communication not hidden behind compute, and the critical path.
    A send without its receive, a cycle, or a rank that never joins its group is an error that names rank and node.
    """
    from dovetail.cli.trace import TraceAsked, answer

    asked = TraceAsked(
        prefix=prefix, topology=topology, system=system, groups=groups, engine=engine,
        is_congestion_aware=congestion_aware, slow_ranks=slow_ranks, as_json=as_json, perfetto=perfetto, csv=csv,
        ranks=ranks, html=html,
    )  # fmt: skip
    answer(asked)


@trace.command(name="import")
def take_in(
    workload: Annotated[str, typer.Argument(metavar="FILE", help="An ASTRA-sim 1.0 text workload.")],
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="What to write stands before .0.et, .1.et, ...")],
    topology: Annotated[str, typer.Option(metavar="NETWORK", help=TOPOLOGY_HELP)] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over traces that stand.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an ASTRA-sim 1.0 text workload as Chakra traces, one a rank."""
    from dovetail.cli.trace import convert

    convert(workload, prefix, topology, is_forced=force, as_json=as_json)
