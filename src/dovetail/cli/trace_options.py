"""The options of `dovetail trace`, which the command line alone has; what it does is in `trace.py`."""

# Annotations are evaluated here: the options in them are the command's.
from typing import Annotated

import typer

from dovetail.api.requests.option import FLAG, Option, Request, argument
from dovetail.cli.options import AsJson, Html, command

Topology = Annotated[
    str,
    Option(
        'Dimensions, innermost first, such as "ring:8@50GB/s,500ns"; or a catalogue cluster, a YAML file with nodes and'
        " links, or an ASTRA-sim network file.",
        "NETWORK",
    ),
]


def run(
    *,
    prefix: Annotated[str, argument("The prefix of .0.et, .1.et, ...", "PREFIX")],
    topology: Topology = "",
    system: Annotated[
        str,
        Option(
            "An ASTRA-sim system file: algorithms, chunks, queues, endpoint. Otherwise what suits each dimension.",
            "FILE",
        ),
    ] = "",
    groups: Annotated[
        str, Option('The ranks of each process group that traces name: {"name": [0, 1], ...}.', "FILE")
    ] = "",
    engine: Annotated[str, Option("events, or astra-sim for what that simulator would answer.", "ENGINE")] = "events",
    congestion_aware: Annotated[
        bool, Option("Of astra-sim's two back ends, the one that models congestion.", kind=FLAG)
    ] = False,
    slow_ranks: Annotated[
        str, Option("Ranks that compute at a share of the others' speed: 3=0.8,5=0.5.", "RANKS")
    ] = "",
    perfetto: Annotated[str, Option("Write a timeline of streams and links for ui.perfetto.dev.", "FILE")] = "",
    csv: Annotated[
        str,
        Option("Write ranks as FILE.csv, links as FILE.links.csv and the critical path as FILE.critical.csv.", "FILE"),
    ] = "",
    ranks: Annotated[str, Option("Whose timeline and links to write: 0-7 or 0,2. Otherwise all.", "RANKS")] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Time Chakra traces, one of each rank, on a network.

    Shows when each rank ends, how much of that is communication not hidden behind compute, and the critical path.
    A send without its receive, a cycle, or a rank that never joins its group is an error that names rank and node.
    """
    request = TraceRequest.of_arguments(locals())
    from dovetail.cli.trace import answer

    answer(request)


class TraceRequest(Request, of=run):
    """The options of `dovetail trace run`."""


@command()
def take_in(
    *,
    workload: Annotated[str, argument("An ASTRA-sim 1.0 text workload.", "FILE")],
    prefix: Annotated[str, argument("The prefix of what to write, before .0.et, .1.et, ...", "PREFIX")],
    topology: Topology = "",
    force: Annotated[bool, Option("Overwrite existing traces.", kind=FLAG)] = False,
    as_json: AsJson = False,
) -> None:
    """Write an ASTRA-sim 1.0 text workload as Chakra traces, one per rank."""
    from dovetail.cli.trace import convert

    convert(workload, prefix, topology, is_forced=force, as_json=as_json)


trace = typer.Typer(help="Run execution traces of all ranks on a network.", rich_markup_mode=None)
trace.command()(command()(run))
trace.command(name="import")(take_in)
