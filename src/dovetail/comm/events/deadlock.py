"""What would never end, found before anything runs: each is an error that names the task and the device."""

from __future__ import annotations

from dovetail.comm.events.program import Collective, Compute, Program, Receive, Send, Task, waits
from dovetail.errors import InvalidInput, did_you_mean


def check_program(program: Program, num_devices: int) -> None:
    """Raises for a wait on nothing, a send without a receive, a device that is not there, or a cycle."""
    tasks = {task.name: task for task in program.tasks}
    received = {task.send for task in program.tasks if isinstance(task, Receive)}
    for task in program.tasks:
        for name in waits(task):
            if name not in tasks:
                raise InvalidInput(f"{task.name} waits for {name!r}, which is no task{did_you_mean(name, tasks)}")
        _check_devices(task, num_devices)
        if isinstance(task, Send) and task.name not in received:
            source, target = task.pairs[0]
            raise InvalidInput(f"rank {source} sends {task.name!r} to rank {target}, which never receives it")
        if isinstance(task, Receive) and not isinstance(tasks[task.send], Send):
            raise InvalidInput(f"{task.name} receives from {task.send!r}, which is not a send")
    cycle = _cycle(tasks)
    if cycle:
        named = " -> ".join(f"{name} (rank {first_device(tasks[name], tasks)})" for name in [*cycle, cycle[0]])
        raise InvalidInput(f"these wait for each other and would never end: {named}")


def first_device(task: Task, tasks: dict[str, Task]) -> int:
    if isinstance(task, Receive):
        send = tasks[task.send]
        return send.pairs[0][1] if isinstance(send, Send) else 0
    if isinstance(task, Send):
        return task.pairs[0][0]
    if isinstance(task, Collective):
        return task.groups[0][0] if task.groups else 0
    return task.devices[0] if task.devices else 0


def _check_devices(task: Task, num_devices: int) -> None:
    if isinstance(task, Receive):
        return
    named: set[int] = set()
    if isinstance(task, Compute):
        named = set(task.devices)
    elif isinstance(task, Send):
        named = {device for pair in task.pairs for device in pair}
    elif len(task.groups):
        named = {device for row in task.groups for device in row}
        if len({len(row) for row in task.groups}) > 1:
            short = min(task.groups, key=len)
            raise InvalidInput(f"{task.name}: the group of rank {short[0]} has {len(short)} devices, others more")
    missing = [device for device in sorted(named) if not 0 <= device < num_devices]
    if missing:
        raise InvalidInput(f"{task.name} names rank {missing[0]}, but the network has {num_devices} devices")


def _cycle(tasks: dict[str, Task]) -> list[str]:
    """Names along one cycle of waits, or none (Kahn, then a walk among what is left)."""
    left = {name: len(set(waits(task))) for name, task in tasks.items()}
    after: dict[str, list[str]] = {name: [] for name in tasks}
    for name, task in tasks.items():
        for earlier in set(waits(task)):
            after[earlier].append(name)
    free = [name for name, count in left.items() if not count]
    while free:
        name = free.pop()
        del left[name]
        for later in after[name]:
            left[later] -= 1
            if not left[later]:
                free.append(later)
    if not left:
        return []
    walk, seen = [min(left)], {}
    while walk[-1] not in seen:
        seen[walk[-1]] = len(walk) - 1
        walk.append(min(name for name in waits(tasks[walk[-1]]) if name in left))
    return walk[seen[walk[-1]] : -1][::-1]
