"""Operators on the cores of a chip: a schedule as plain data, as tables with a chart, and as tracks of a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dovetail.opsched.problem import HBM, TENSOR, VECTOR, WHOLE, CoreSchedule
from dovetail.opsched.tensors import peak_hbm_bytes, peak_sram_bytes
from dovetail.report.labels import percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.report.tracks import Counter, Process, Slice, Track
from dovetail.units import format_bytes, format_s

CHART_WIDTH = 32
KINDS = {TENSOR: "tensor", VECTOR: "vector"}


def fits(schedule: CoreSchedule) -> bool:
    """Whether HBM holds what the schedule has there at once."""
    return peak_hbm_bytes(schedule) <= schedule.problem.hbm_bytes


def is_best(schedule: CoreSchedule) -> bool:
    """Whether it is proven that none is shorter."""
    return schedule.makespan_beats == schedule.bound_beats


def schedule_record(schedule: CoreSchedule, *, model: str, block: str, chip: str, limit_s: float) -> Record:
    """`limit_s` is how long an exact schedule was looked for, 0 where it is the list scheduler's."""
    problem = schedule.problem
    return {
        "model": model,
        "block": block,
        "chip": chip,
        "num_tensor_cores": int(problem.stock[TENSOR]),
        "num_vector_cores": int(problem.stock[VECTOR]),
        "is_exact": limit_s > 0 and is_best(schedule),
        "limit_s": limit_s or None,
        "makespan_s": schedule.makespan_s,
        "bound_s": schedule.bound_s,
        "gap_frac": schedule.gap_frac,
        "fits": fits(schedule),
        "peak_hbm_bytes": peak_hbm_bytes(schedule),
        "hbm_bytes": problem.hbm_bytes,
        "peak_sram_bytes": peak_sram_bytes(schedule),
        "sram_bytes": problem.sram_bytes,
        "tensor_busy_frac": busy_frac(schedule, TENSOR),
        "vector_busy_frac": busy_frac(schedule, VECTOR),
        "hbm_busy_frac": busy_frac(schedule, HBM),
        "operators": [_operator(schedule, i) for i in working(schedule)],
    }


def _operator(schedule: CoreSchedule, i: int) -> Record:
    problem = schedule.problem
    need = problem.modes.need[schedule.mode[i]]
    return {
        "name": problem.names[i],
        "start_s": float(schedule.start_beats[i] * problem.beat_s),
        "end_s": float(schedule.end_beats[i] * problem.beat_s),
        "num_tensor_cores": int(need[TENSOR]),
        "num_vector_cores": int(need[VECTOR]),
        "hbm_frac": float(need[HBM] / WHOLE),
    }


def working(schedule: CoreSchedule) -> list[int]:
    """Operators that take time, as they start."""
    order = np.lexsort((np.arange(len(schedule.problem)), schedule.end_beats, schedule.start_beats))
    return [int(i) for i in order if schedule.end_beats[i] > schedule.start_beats[i]]


def busy_frac(schedule: CoreSchedule, what: int) -> float:
    """Share of a resource that is held, over the whole schedule."""
    problem = schedule.problem
    held = (problem.modes.beats * problem.modes.need[:, what])[schedule.mode].sum()
    return float(held / max(int(problem.stock[what]) * schedule.makespan_beats, 1))


def schedule_tables(schedule: CoreSchedule, *, model: str, block: str, chip: str, limit_s: float) -> tuple[Table, ...]:
    """As `schedule_record` has it, for people."""
    problem = schedule.problem
    hbm_bytes, sram_bytes = peak_hbm_bytes(schedule), peak_sram_bytes(schedule)
    rows = (
        ("time", format_s(schedule.makespan_s), _found_label(schedule, limit_s)),
        ("bound", format_s(schedule.bound_s), "no schedule of these operators is shorter"),
        ("tensor cores", f"{problem.stock[TENSOR]}", f"{percent(busy_frac(schedule, TENSOR))} busy"),
        ("vector cores", f"{problem.stock[VECTOR]}", f"{percent(busy_frac(schedule, VECTOR))} busy"),
        ("HBM bandwidth", "", f"{percent(busy_frac(schedule, HBM))} used"),
        (
            "HBM",
            format_bytes(hbm_bytes),
            f"at the peak, of {format_bytes(problem.hbm_bytes)}{_over(schedule)}",
        ),
        ("SRAM", format_bytes(sram_bytes), f"in blocks at the peak, of {format_bytes(problem.sram_bytes)}"),
    )
    chart = Table(
        title="Operators as they start",
        columns=("operator", "cores", "time", "from the start to the end"),
        rows=tuple(_chart_row(schedule, i) for i in working(schedule)),
        align="lrrl",
        notes=("Cores: t tensor, v vector.",),
    )
    return Table(title=f"{model}, {block}, on {chip}", rows=rows, align="lrl"), chart


def _found_label(schedule: CoreSchedule, limit_s: float) -> str:
    """Whose schedule it is, and how good: one is called exact only with its proof."""
    if is_best(schedule):
        return f"{'exact' if limit_s else 'list'} schedule; the best there is"
    how = f"best found within a limit of {format_s(limit_s, 2)}" if limit_s else "list schedule"
    return f"{how}; at most {percent(schedule.gap_frac)} could be saved"


def _over(schedule: CoreSchedule) -> str:
    return "" if fits(schedule) else ": does not fit; lower --batch"


def _chart_row(schedule: CoreSchedule, i: int) -> tuple[str, str, str, str]:
    need = schedule.problem.modes.need[schedule.mode[i]]
    cores = " ".join(f"{need[kind]}{word[0]}" for kind, word in KINDS.items() if need[kind])
    scale = CHART_WIDTH / schedule.makespan_beats
    begin, end = int(schedule.start_beats[i] * scale), int(np.ceil(schedule.end_beats[i] * scale))
    drawn = "·" * begin + "█" * max(end - begin, 1)
    lasts_s = float(schedule.end_beats[i] - schedule.start_beats[i]) * schedule.problem.beat_s
    return schedule.problem.names[i], cores or "-", format_s(lasts_s, 2), drawn[:CHART_WIDTH].ljust(CHART_WIDTH, "·")


def schedule_processes(schedule: CoreSchedule, chip: str) -> tuple[Process, ...]:
    """A timeline: lanes of operators by the cores they hold, and counters of what is held."""
    tracks = tuple(track for kind in KINDS for track in _lanes(schedule, kind))
    counters = tuple(_counter(schedule, what, word) for what, word in {**KINDS, HBM: "HBM bandwidth"}.items())
    return (Process(number=1, name=chip, tracks=tracks, counters=counters),)


def _lanes(schedule: CoreSchedule, kind: int) -> Iterator[Track]:
    """Operators on cores of a kind, in as few lanes as keep them apart; attention lies with the tensor cores."""
    need = schedule.problem.modes.need[schedule.mode]
    lanes: list[list[int]] = []
    for i in working(schedule):
        own = TENSOR if need[i, TENSOR] or not need[i, VECTOR] else VECTOR
        if own == kind:
            free = [lane for lane in lanes if schedule.end_beats[lane[-1]] <= schedule.start_beats[i]]
            free[0].append(i) if free else lanes.append([i])
    for number, lane in enumerate(lanes, start=1):
        yield Track(name=f"{KINDS[kind]} cores, lane {number}", slices=tuple(_slices(schedule, lane, KINDS[kind])))


def _slices(schedule: CoreSchedule, lane: Sequence[int], category: str) -> Iterator[Slice]:
    for i in lane:
        said = _operator(schedule, i)
        notes = tuple((key, said[key]) for key in ("num_tensor_cores", "num_vector_cores", "hbm_frac"))
        yield Slice(
            name=said["name"], begin_s=said["start_s"], end_s=said["end_s"], category=category, notes=notes
        )  # fmt: skip


def _counter(schedule: CoreSchedule, what: int, word: str) -> Counter:
    """What is held of a resource over time, as a share of all there is."""
    problem = schedule.problem
    need = problem.modes.need[schedule.mode, what]
    moments = np.unique(np.concatenate((schedule.start_beats, schedule.end_beats)))
    held = [int(need[(schedule.start_beats <= now) & (now < schedule.end_beats)].sum()) for now in moments]
    points = zip((moments * problem.beat_s).tolist(), (np.array(held) / problem.stock[what]).tolist(), strict=True)
    return Counter(name=f"{word} held", unit="share", points=tuple(points))
