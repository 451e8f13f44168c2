"""Ranks that do the same by the same names -> one task over all of them, so that a run costs as much as one rank."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.network.events.deadlock import has_cycle
from dovetail.network.events.pairing import Node, collectives_of, program_of
from dovetail.network.events.program import Collective, Compute, Devices, Program, Queueing, Task


def folded_program(nodes: Sequence[Node], num_devices: int, queueing: Queueing, devices: Devices) -> Program:
    """The program of all ranks; folded where every name means the same at each rank that has it, else as it is."""
    by_name: dict[str, list[Node]] = {}
    for node in nodes:
        by_name.setdefault(node.name, []).append(node)
    if all(_is_alike(same) for same in by_name.values()) and _join_alike(nodes):
        tasks = tuple(_task(same, num_devices, number) for number, same in enumerate(by_name.values()))
        program = Program(tasks=tasks, queueing=queueing, devices=devices)
        if not has_cycle(program):  # stages that hand on to each other under one name cannot be one task
            return program
    return program_of(nodes, queueing, devices)


def _is_alike(same: list[Node]) -> bool:
    first = same[0]
    mine = (first.kind, first.after, first.duration_s, first.payload_bytes, first.collective, first.num_chunks)
    return (
        first.kind in ("compute", "collective")
        and len({node.rank for node in same}) == len(same)
        and len({len(node.group) for node in same}) == 1
        and all(
            (n.kind, n.after, n.duration_s, n.payload_bytes, n.collective, n.num_chunks) == mine for n in same
        )
    )  # fmt: skip


def _join_alike(nodes: Sequence[Node]) -> bool:
    return all(len({node.name for node in members}) == 1 for members in collectives_of(nodes))


def _task(same: list[Node], num_devices: int, sequence: int) -> Task:
    first = same[0]
    if first.kind == "collective":
        groups = tuple(dict.fromkeys(node.group for node in same))
        return Collective(
            name=first.name, collective=first.collective, payload_bytes=first.payload_bytes, groups=groups,
            num_chunks=first.num_chunks, after=first.after, sequence=sequence,
        )  # fmt: skip
    ranks = tuple(sorted(node.rank for node in same))
    named = () if len(ranks) == num_devices else ranks
    return Compute(name=first.name, duration_s=first.duration_s, devices=named, after=first.after, sequence=sequence)
