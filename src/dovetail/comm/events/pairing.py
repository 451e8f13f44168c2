"""What each rank does by itself -> one program: sends find their receives, and members of a group each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Receive, Send, Task
from dovetail.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step of one rank, as an execution trace records it; `after` names nodes of the same rank."""

    rank: int
    name: str
    kind: Literal["compute", "collective", "send", "receive"]
    after: tuple[str, ...] = ()
    duration_s: float = 0.0
    payload_bytes: float = 0.0
    collective: str = ""
    group: tuple[int, ...] = ()
    peer: int = -1
    tag: int = 0
    num_chunks: int = 1


def program_of(nodes: Sequence[Node], queueing: Queueing, devices: Devices) -> Program:
    """Raises, naming rank and node, for a send or receive without the other, or a member that never joins."""
    joined = collectives_of(nodes)
    names = {(node.rank, node.name): f"{node.rank}:{node.name}" for node in nodes}
    for members in joined:
        names.update({(node.rank, node.name): f"{members[0].rank}:{members[0].name}" for node in members})
    tasks: list[Task] = [_collective_task(members, names) for members in joined]
    sends = _sends(nodes)
    for number, node in enumerate(nodes):
        if node.kind == "collective":
            continue
        name, after = names[node.rank, node.name], _after(node, names)
        if node.kind == "compute":
            tasks.append(
                Compute(name=name, duration_s=node.duration_s, devices=(node.rank,), after=after, sequence=number)
            )
        elif node.kind == "send":
            pairs = ((node.rank, node.peer),)
            tasks.append(Send(name=name, pairs=pairs, payload_bytes=node.payload_bytes, after=after, sequence=number))
        else:
            send = sends[node.rank, node.name]
            tasks.append(Receive(name=name, send=names[send.rank, send.name], after=after, sequence=number))
    return Program(tasks=tuple(tasks), queueing=queueing, devices=devices)


def _after(node: Node, names: dict[tuple[int, str], str]) -> tuple[str, ...]:
    for earlier in node.after:
        if (node.rank, earlier) not in names:
            raise InvalidInput(
                f"rank {node.rank}: node {node.name!r} waits for {earlier!r}, which the rank does not have"
            )
    return tuple(dict.fromkeys(names[node.rank, earlier] for earlier in node.after))


def _sends(nodes: Sequence[Node]) -> dict[tuple[int, str], Node]:
    """The send each receive gets: the k-th from a rank to another with a tag meets the k-th receive of these."""
    sent: dict[tuple[int, int, int], list[Node]] = defaultdict(list)
    received: dict[tuple[int, int, int], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.kind == "send":
            sent[node.rank, node.peer, node.tag].append(node)
        elif node.kind == "receive":
            received[node.peer, node.rank, node.tag].append(node)
    found = {}
    for key in sorted({*sent, *received}):
        source, target, tag = key
        pairs = min(len(sent[key]), len(received[key]))
        for send in sent[key][pairs:]:
            named = f"node {send.name!r}"
            raise InvalidInput(f"rank {source}: {named} sends tag {tag} to rank {target}, which never receives it")
        for receive in received[key][pairs:]:
            named = f"node {receive.name!r}"
            raise InvalidInput(f"rank {target}: {named} waits for tag {tag} from rank {source}, which never sends it")
        for send, receive in zip(sent[key], received[key], strict=True):
            if send.payload_bytes != receive.payload_bytes:
                waits_for = f"rank {target}: node {receive.name!r} waits for {receive.payload_bytes:.0f} bytes"
                sends = f"rank {source} sends {send.payload_bytes:.0f} bytes in node {send.name!r}"
                raise InvalidInput(f"{waits_for} where {sends}")
            found[receive.rank, receive.name] = send
    return found


def collectives_of(nodes: Sequence[Node]) -> list[list[Node]]:
    """Members of each collective: the k-th of a group at each of its ranks."""
    by_group: dict[tuple[int, ...], dict[int, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        if node.kind == "collective":
            if node.rank not in node.group:
                message = f"rank {node.rank}: node {node.name!r} is not of its own group"
                raise InvalidInput(
                    f"{message}, which {f'begins with rank {node.group[0]}' if node.group else 'is empty'}"
                )
            by_group[node.group][node.rank].append(node)
    joined = []
    for group, by_rank in sorted(by_group.items()):
        most = max(by_rank.values(), key=len)
        for number, first in enumerate(most):
            for rank in group:
                if len(by_rank[rank]) <= number:
                    where = f"rank {first.rank}: node {first.name!r} waits for rank {rank}"
                    raise InvalidInput(f"{where}, which never joins this {first.collective}")
                node = by_rank[rank][number]
                if (node.collective, node.payload_bytes) != (first.collective, first.payload_bytes):
                    wanted, other = _described(node), _described(first)
                    raise InvalidInput(f"rank {rank} asks for {wanted} where rank {first.rank} asks for {other}")
            joined.append([by_rank[rank][number] for rank in group])
    return joined


def _described(node: Node) -> str:
    """A collective as its trace has it: an all-gather by what each rank gives."""
    size_bytes = node.payload_bytes / (len(node.group) if node.collective == "all-gather" else 1)
    return f"{node.collective} of {size_bytes:.0f} bytes in node {node.name!r}"


def _collective_task(members: list[Node], names: dict[tuple[int, str], str]) -> Collective:
    first = members[0]
    after = tuple(dict.fromkeys(name for node in members for name in _after(node, names)))
    return Collective(
        name=names[first.rank, first.name], collective=first.collective, payload_bytes=first.payload_bytes,
        groups=(first.group,), num_chunks=first.num_chunks, after=after,
    )  # fmt: skip
