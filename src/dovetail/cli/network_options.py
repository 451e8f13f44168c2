"""The options of `dovetail network`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html

if TYPE_CHECKING:
    from dovetail.api.network_said import NetworkSaid
    from dovetail.cli.network import NetworkFiles

COLLECTIVE_HELP = "all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce or point-to-point."
SIZE_HELP = 'What one rank holds, such as "64 MiB"; 1MiB..1GiB doubles from one to the other.'
TOPOLOGY_HELP = (
    'Dimensions, innermost first, such as "ring:8@50GB/s,500ns x switch:4@25GB/s,1us"; 8..64 devices double too.'
    " Or a catalogue cluster, or a YAML file with nodes and links."
)
ALGORITHM_HELP = (
    "ring, direct, halving-doubling, double-binary-tree or in-switch; x=ring,y=direct for one each. Otherwise what"
    " suits each dimension."
)
GROUPS_HELP = "Devices that take part, group by group: 0-3;4-7. Otherwise all in one."
SLOW_HELP = "Links at a share of their bandwidth: 2-3=0.5, or 2>3=0 for one way, broken."
ENDPOINT_HELP = "What moves bytes through the chip: ace, copy-engine, ideal, in-switch, near-memory or sm-ring."
MEMORY_HELP = 'Memory bandwidth it may use, reads and writes each: "450 GB/s"; 100GB/s..800GB/s doubles.'
SMS_HELP = 'SMs it may use, and what each reads: 6, or "6@40GB/s". Otherwise a measured chip\'s rate, or 80 GB/s (ACE).'
PERFETTO_HELP = "Write a timeline of links and streams for ui.perfetto.dev."
PLOT_HELP = "Draw time over size, of a sweep or of one point, as .svg."
CSV_HELP = "Write results as FILE.csv; one answer's links and critical path as FILE.links.csv and FILE.critical.csv."
RANKS_HELP = "Whose timeline and links to write: 0-7 or 0,2. Otherwise all."
ASTRA_HELP = "Write the same as ASTRA-sim's files: PREFIX.0.et and on, PREFIX.network.yml, PREFIX.system.json."


def network(
    collective: Annotated[str, typer.Argument(metavar="COLLECTIVE", help=COLLECTIVE_HELP)],
    size: Annotated[str, typer.Option(metavar="SIZE", help=SIZE_HELP)] = "",
    topology: Annotated[str, typer.Option(metavar="NETWORK", help=TOPOLOGY_HELP)] = "",
    algorithm: Annotated[str, typer.Option(metavar="NAME", help=ALGORITHM_HELP)] = "",
    engine: Annotated[str, typer.Option(metavar="ENGINE", help="events or closed.")] = "events",
    chunks: Annotated[str, typer.Option(metavar="N", help="Chunks the payload is cut into.")] = "1",
    active: Annotated[str, typer.Option(metavar="N", help="Chunks under way at once in a dimension.")] = "1",
    policy: Annotated[str, typer.Option(metavar="POLICY", help="Who is next: fifo, lifo or priority.")] = "fifo",
    themis: Annotated[bool, typer.Option("--themis", help="Each chunk starts in the least loaded dimension.")] = False,
    groups: Annotated[str, typer.Option(metavar="GROUPS", help=GROUPS_HELP)] = "",
    dims: Annotated[str, typer.Option(metavar="NAMES", help="Groups along these dimensions only, such as x,y.")] = "",
    slow: Annotated[str, typer.Option(metavar="LINKS", help=SLOW_HELP)] = "",
    endpoint: Annotated[str, typer.Option(metavar="NAME", help=ENDPOINT_HELP)] = "",
    memory: Annotated[str, typer.Option(metavar="RATE", help=MEMORY_HELP)] = "",
    sms: Annotated[str | None, typer.Option(metavar="N", help=SMS_HELP)] = None,
    plot: Annotated[str, typer.Option(metavar="FILE", help=PLOT_HELP)] = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    csv: Annotated[str, typer.Option(metavar="FILE", help=CSV_HELP)] = "",
    ranks: Annotated[str, typer.Option(metavar="RANKS", help=RANKS_HELP)] = "",
    astra_sim: Annotated[str, typer.Option(metavar="PREFIX", help=ASTRA_HELP)] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over --astra-sim files that stand.")] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Time one collective on one network, chunk by chunk.

    A kind of dimension is ring (both ways round), uniring, torus:4x4x4, mesh, switch, fully-connected, fat-tree
    (oversubscription=2; leaf=8,spines=4 for its own switches) or dragonfly:9x4x2. Bandwidth is what one device
    can send into the dimension, in one direction, all its ports together.
    """
    return _answered(
        _said(
            collective=collective, size=size, topology=topology, algorithm=algorithm, engine=engine, chunks=chunks,
            active=active, policy=policy, themis=themis, groups=groups, dims=dims, slow=slow, endpoint=endpoint,
            memory=memory, sms=sms,
        ),
        _files(plot=plot, perfetto=perfetto, csv=csv, ranks=ranks, astra_sim=astra_sim, force=force, html=html),
        as_json=as_json,
    )  # fmt: skip


def _answered(said: NetworkSaid, files: NetworkFiles, *, as_json: bool) -> None:
    from dovetail.cli.network import answer

    answer(said, files, as_json=as_json)


def _said(
    *, collective: str, size: str, topology: str, algorithm: str, engine: str, chunks: str, active: str, policy: str,
    themis: bool, groups: str, dims: str, slow: str, endpoint: str, memory: str, sms: str | None,
) -> NetworkSaid:  # fmt: skip
    """What was typed of the collective and its network, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.network_said import NetworkSaid

    return NetworkSaid(
        collective=collective,
        size=size,
        topology=topology,
        algorithm=algorithm,
        engine=engine,
        num_chunks=count("--chunks", chunks),
        num_active_chunks=count("--active", active),
        policy=policy,
        is_themis=themis,
        groups=groups,
        dims=dims,
        slow=slow,
        endpoint=endpoint,
        memory=memory,
        sms=sms or "",
    )


def _files(*, plot: str, perfetto: str, csv: str, ranks: str, astra_sim: str, force: bool, html: str) -> NetworkFiles:
    from dovetail.cli.network import NetworkFiles

    return NetworkFiles(plot=plot, perfetto=perfetto, csv=csv, ranks=ranks, astra=astra_sim, is_forced=force, html=html)
