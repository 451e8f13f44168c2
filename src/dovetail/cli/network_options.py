"""The options of `dovetail network`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

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
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."


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
    sms: Annotated[str | None, typer.Option(metavar="N", help="SMs it may use.")] = None,
    plot: Annotated[str, typer.Option(metavar="FILE", help="Write the curves of a sweep as .svg or .html.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Time one collective on one network, chunk by chunk.

    A kind of dimension is ring (both ways round), uniring, torus:4x4x4, mesh, switch, fully-connected, fat-tree
    (oversubscription=2; leaf=8,spines=4 for its own switches) or dragonfly:9x4x2. Bandwidth is what one device
    can send into the dimension, in one direction, all its ports together.
    """
    from dovetail.cli.asked import count
    from dovetail.cli.network import Said, answer

    words = {"collective": collective, "size": size, "topology": topology, "algorithm": algorithm, "engine": engine}
    words |= {"policy": policy, "groups": groups, "dims": dims, "slow": slow, "plot": plot}
    words |= {"endpoint": endpoint, "memory": memory}
    num_chunks, num_active, num_sms = count("--chunks", chunks), count("--active", active), count("--sms", sms)
    said = Said(**words, num_chunks=num_chunks, num_active_chunks=num_active, num_sms=num_sms, is_themis=themis)
    answer(said, as_json=as_json)
