"""Whether a schedule is one: the problem read once more, moment by moment, with no code of the schedulers."""

from __future__ import annotations

from dovetail.opsched.problem import RESOURCES, CoreSchedule


def violations(schedule: CoreSchedule) -> list[str]:
    """One line for everything that is wrong: modes, times, precedence, and every resource at every start."""
    problem = schedule.problem
    modes, names = problem.modes, problem.names
    start, mode = [int(t) for t in schedule.start_beats], [int(m) for m in schedule.mode]
    found = []
    for i, name in enumerate(names):
        if not modes.start[i] <= mode[i] < modes.start[i + 1]:
            found.append(f"{name} runs in mode {mode[i]}, which is not its own")
        if start[i] < 0:
            found.append(f"{name} starts at {start[i]}, before the schedule does")
    if found:
        return found
    end = [start[i] + int(modes.beats[mode[i]]) for i in range(len(names))]
    for i, name in enumerate(names):
        for j in problem.dag.edge_to[problem.dag.edge_start[i] : problem.dag.edge_start[i + 1]]:
            if start[j] < end[i]:
                found.append(f"{names[j]} starts at {start[j]}, before {name} ends at {end[i]}")
    for now in sorted(set(start)):
        running = [i for i in range(len(names)) if start[i] <= now < end[i]]
        for what, whole in enumerate(problem.stock):
            held = sum(int(modes.need[mode[i], what]) for i in running)
            if held > whole:
                found.append(f"{held} of {whole} {RESOURCES[what]} are held at {now}")
    if schedule.bound_beats > max(end, default=0):
        found.append(f"the bound, {schedule.bound_beats}, is above the makespan, {max(end, default=0)}")
    return found


def held_hbm_bytes(schedule: CoreSchedule, now: int) -> float:
    """Bytes in HBM at one moment, tensor by tensor."""
    tensors = schedule.problem.tensors
    held_bytes = tensors.resident_bytes
    end = schedule.end_beats
    for tensor, maker in enumerate(tensors.maker):
        users = tensors.use_to[tensors.use_start[tensor] : tensors.use_start[tensor + 1]]
        last = max((int(end[user]) for user in users), default=schedule.makespan_beats)
        if schedule.start_beats[maker] <= now < max(last, int(end[maker])):
            held_bytes += float(tensors.tensor_bytes[tensor])
    return held_bytes
