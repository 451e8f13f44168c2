"""Operators on the cores of a chip: a schedule as an answer with a chart, and as tracks of a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dovetail.opsched.problem import HBM, TENSOR, VECTOR, WHOLE, CoreSchedule
from dovetail.opsched.tensors import peak_hbm_bytes, peak_sram_bytes
from dovetail.report.figures import (
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    Part,
    Phrase,
    TextOnly,
    joined,
    labelled,
    phrase,
)
from dovetail.report.labels import percent
from dovetail.report.plain import Record
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


def schedule_figures(schedule: CoreSchedule, *, model: str, block: str, chip: str, limit_s: float) -> Figures:
    """A schedule, what it holds, and its operators as they start.

    `limit_s` is how long an exact schedule was looked for, 0 where it is the list scheduler's.
    """
    problem = schedule.problem
    hbm_bytes, sram_bytes = peak_hbm_bytes(schedule), peak_sram_bytes(schedule)

    def held(key: str, what: int) -> Figure:
        frac = busy_frac(schedule, what)
        return Figure(f"{key}_busy_frac", frac, percent(frac))

    def cores(kind: int) -> FigureRow:
        word, num = KINDS[kind], int(problem.stock[kind])
        return FigureRow(
            (f"{word} cores", Figure(f"num_{word}_cores", num, str(num)), phrase("{} busy", held(word, kind)))
        )

    return (
        FigureTable(
            title=phrase("{}, {}, on {}", labelled("model", model), labelled("block", block), labelled("chip", chip)),
            align="lrl",
            rows=(
                FigureRow(
                    (
                        "time",
                        Figure("makespan_s", schedule.makespan_s, format_s(schedule.makespan_s)),
                        _found_label(schedule, limit_s),
                    )
                ),
                FigureRow(
                    (
                        "bound",
                        Figure("bound_s", schedule.bound_s, format_s(schedule.bound_s)),
                        "no schedule of these operators is shorter",
                    )
                ),
                cores(TENSOR),
                cores(VECTOR),
                FigureRow(("HBM bandwidth", "", phrase("{} used", held("hbm", HBM)))),
                FigureRow(
                    (
                        "HBM",
                        Figure("peak_hbm_bytes", hbm_bytes, format_bytes(hbm_bytes)),
                        phrase(
                            "at the peak, of {}{}",
                            Figure("hbm_bytes", problem.hbm_bytes, format_bytes(problem.hbm_bytes)),
                            "" if fits(schedule) else ": does not fit; lower --batch",
                        ),
                    )
                ),
                FigureRow(
                    (
                        "SRAM",
                        Figure("peak_sram_bytes", sram_bytes, format_bytes(sram_bytes)),
                        phrase(
                            "in blocks at the peak, of {}",
                            Figure("sram_bytes", problem.sram_bytes, format_bytes(problem.sram_bytes)),
                        ),
                    )
                ),
                Figure("is_exact", limit_s > 0 and is_best(schedule)),
                Figure("limit_s", limit_s or None),
                Figure("gap_frac", schedule.gap_frac),
                Figure("fits", fits(schedule)),
            ),
        ),
        FigureList(
            key="operators",
            title="Operators as they start",
            items=working(schedule),
            figures=lambda i: _operator_figures(schedule, i),
            notes=("Cores: t tensor, v vector.",),
        ),
    )


def _operator_figures(schedule: CoreSchedule, i: int) -> Iterator[Figure | TextOnly | Phrase]:
    record = _operator(schedule, i)
    need = {f"num_{word}_cores": word[0] for word in KINDS.values()}
    cores = [Figure(key, record[key], f"{record[key]}{letter}") for key, letter in need.items() if record[key]]
    scale = CHART_WIDTH / schedule.makespan_beats
    begin, end = int(schedule.start_beats[i] * scale), int(np.ceil(schedule.end_beats[i] * scale))
    drawn = "·" * begin + "█" * max(end - begin, 1)
    lasts_s = float(schedule.end_beats[i] - schedule.start_beats[i]) * schedule.problem.beat_s
    yield labelled("name", record["name"], "operator")
    yield replace(joined(" ", cores or ("-",), "cores"), align="r")
    yield TextOnly("end_s less start_s", format_s(lasts_s, 2), "time")
    yield TextOnly("bar", drawn[:CHART_WIDTH].ljust(CHART_WIDTH, "·"), "from the start to the end", "l")
    yield from (Figure(key, value) for key, value in record.items())


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


def _found_label(schedule: CoreSchedule, limit_s: float) -> Part:
    """Whose schedule it is, and how good: one is called exact only with its proof."""
    if is_best(schedule):
        return f"{'exact' if limit_s else 'list'} schedule; the best there is"
    limit = Figure("limit_s", limit_s or None, format_s(limit_s, 2))
    how: Part = phrase("best found within a limit of {}", limit) if limit_s else "list schedule"
    gap = Figure("gap_frac", schedule.gap_frac, percent(schedule.gap_frac))
    return phrase("{}; at most {} could be saved", how, gap)


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
        record = _operator(schedule, i)
        notes = tuple((key, record[key]) for key in ("num_tensor_cores", "num_vector_cores", "hbm_frac"))
        yield Slice(
            name=record["name"], begin_s=record["start_s"], end_s=record["end_s"], category=category, notes=notes
        )  # fmt: skip


def _counter(schedule: CoreSchedule, what: int, word: str) -> Counter:
    """What is held of a resource over time, as a share of all there is."""
    problem = schedule.problem
    need = problem.modes.need[schedule.mode, what]
    moments = np.unique(np.concatenate((schedule.start_beats, schedule.end_beats)))
    held = [int(need[(schedule.start_beats <= now) & (now < schedule.end_beats)].sum()) for now in moments]
    points = zip((moments * problem.beat_s).tolist(), (np.array(held) / problem.stock[what]).tolist(), strict=True)
    return Counter(name=f"{word} held", unit="share", points=tuple(points))
