"""Memory of the stages: in text equal neighbours in one row, and of many stages a row for each stretch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import pairwise

from dovetail.accuracy.memory_margin import MemoryRoom, memory_room
from dovetail.evaluate import Infeasible, MemoryUse, Outcome
from dovetail.parallel.memory import StageMemory
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import pool_of_stage
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.figures import (
    Entry,
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    Part,
    Phrase,
    TextOnly,
    labelled,
    phrase,
)
from dovetail.report.labels import likely
from dovetail.units import GIBI, MEBI, PEBI, TEBI, format_bytes
from dovetail.workload.workload import Workload

MAX_ROWS = 8
KINDS = ("weights", "gradients", "optimizer", "activations", "buffers", "total")
MANY = 10_000  # of a unit: from here on the next one reads better


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRange:
    """Neighbouring stages, `first` to `last`, both included; with one entry for all where they hold the same."""

    first: int
    last: int
    num_layers: tuple[int, ...]
    recompute: tuple[str, ...]
    memory: tuple[StageMemory, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def place(self, index: int) -> int:
        """The stage of an entry."""
        return self.memory[index].stage


def memory_tables(use: MemoryUse, workload: Workload, plan: Plan) -> Figures:
    """What a device holds at its fullest, kind by kind, against what it has."""
    num_layers = layers_per_stage(workload.model.forward(workload.sample).num_layers, plan)
    runs = stage_runs(use, num_layers, plan)
    shown = runs if len(runs) <= MAX_ROWS else _summarised(runs, use)
    has_policies = len(set(plan.recompute)) > 1
    scale_bytes, symbol = unit_of_bytes(use.fullest.total_bytes)
    columns = ("stage", "layers", *(("recompute",) if has_policies else ()), *KINDS)
    return (
        FigureTable(
            title=phrase("Memory per device, {}", symbol),
            columns=columns,
            align="l" + "r" * len(columns),
            rows=(
                *(_row(run, scale_bytes, has_policies=has_policies) for run in shown),
                Figure("memory.limit_bytes", use.limit_bytes),
                Figure("memory.need_bytes", use.need_bytes),
                Figure("memory.reserve_bytes", use.reserve_bytes),
                Figure("memory.runtime_bytes", use.runtime_bytes),
                Figure("memory.host_need_bytes", use.host_need_bytes),
                Figure("memory.host_limit_bytes", use.host_limit_bytes),
                Figure("memory.fits", use.fits),
            ),
            notes=tuple(_notes(use, is_whole=shown == runs)),
        ),
        FigureList(
            key="memory.stages",
            items=use.stages,
            figures=lambda stage: (
                *(Figure(name, value) for name, value in asdict(stage).items() if name != "reserve_frac"),
                Figure("total_bytes", stage.total_bytes),
                Figure("recompute", plan.recompute_of(stage.stage)),
                Figure("num_layers", num_layers[stage.stage]),
                Figure("limit_bytes", use.limits_bytes[stage.stage if len(use.limits_bytes) > 1 else 0]),
            ),
        ),
    )


def stage_runs(use: MemoryUse, num_layers: tuple[int, ...], plan: Plan) -> tuple[StageRange, ...]:
    starts = [0]
    for before, after in pairwise(use.stages):
        is_equal = all(
            getattr(before, f.name) == getattr(after, f.name) for f in fields(StageMemory) if f.name != "stage"
        )
        if not is_equal or num_layers[before.stage] != num_layers[after.stage]:
            starts.append(after.stage)
    ends = [*(start - 1 for start in starts[1:]), len(use.stages) - 1]
    return tuple(
        StageRange(
            first=first,
            last=last,
            num_layers=(num_layers[first],),
            recompute=(plan.recompute_of(first),),
            memory=(use.stages[first],),
        )
        for first, last in zip(starts, ends, strict=True)
    )


def _summarised(runs: tuple[StageRange, ...], use: MemoryUse) -> tuple[StageRange, ...]:
    """First, fullest, emptiest and last by themselves, and what lies between them in one row each time."""
    fullest = use.fullest.stage
    emptiest = min(use.stages, key=lambda stage: stage.total_bytes).stage
    places = {0, fullest, emptiest, len(use.stages) - 1}
    rows: list[StageRange] = []
    between: list[StageRange] = []
    for run in runs:
        if not any(run.first <= place <= run.last for place in places):
            between.append(run)
            continue
        rows += [_merged(between), run] if between else [run]
        between = []
    return tuple(rows)


def _merged(runs: list[StageRange]) -> StageRange:
    return StageRange(
        first=runs[0].first,
        last=runs[-1].last,
        num_layers=tuple(count for run in runs for count in run.num_layers),
        recompute=tuple(policy for run in runs for policy in run.recompute),
        memory=tuple(stage for run in runs for stage in run.memory),
    )


def unit_of_bytes(most_bytes: float) -> tuple[float, str]:
    """The unit that all totals are said in."""
    for scale_bytes, symbol in ((MEBI, "MiB"), (GIBI, "GiB"), (TEBI, "TiB")):
        limit = GIBI / MEBI if symbol == "MiB" else MANY
        if most_bytes / scale_bytes < limit:
            return scale_bytes, symbol
    return PEBI, "PiB"


def _row(run: StageRange, scale_bytes: float, *, has_policies: bool) -> FigureRow:
    digits = 0 if has_policies else 1  # there is no room for more
    least, most = (pick(run.num_layers) for pick in (min, max))
    first, last = _stage(run.first, "stage", run.first), _stage(run.last, "stage", run.last)
    layers = [_stage(run.place(run.num_layers.index(count)), "num_layers", count) for count in (least, most)]
    policies = " ".join(dict.fromkeys(policy.removesuffix("-activation") for policy in run.recompute))
    return FigureRow(
        (
            first if run.first == run.last else phrase("{}-{}", first, last),
            layers[0] if least == most else phrase("{}-{}", *layers),
            *((policies,) if has_policies else ()),
            *(_span(run, kind, scale_bytes, digits) for kind in KINDS),
        )
    )


def _stage(stage: int, key: str, value: float, text: str = "") -> Figure:
    """A figure of a stage, which the list of stages has."""
    return Figure(f"memory.stages[{stage}].{key}", value, text or str(value))


def _span(run: StageRange, kind: str, scale_bytes: float, digits: int) -> Part:
    """One number, or from the least to the most of several."""
    held = [getattr(stage, f"{kind}_bytes") for stage in run.memory]
    ends = [held.index(pick(held)) for pick in (min, max)]
    numbers = [held[place] / scale_bytes for place in ends]
    exact = dict.fromkeys(f"{number:.1f}" if number < MANY else f"{number:.1e}" for number in numbers)
    texts = list(exact) if len(exact) == 1 else [f"{number:.{digits}f}" for number in numbers]
    figures = [
        _stage(run.memory[place].stage, f"{kind}_bytes", held[place], text)
        for place, text in zip(ends, texts, strict=False)
    ]
    return figures[0] if len(figures) == 1 else phrase("{}-{}", *figures)


def _verdict(need_bytes: float, limit_bytes: float) -> Phrase:
    slack_bytes = limit_bytes - need_bytes
    spare = TextOnly("need_bytes against limit_bytes", format_bytes(abs(slack_bytes)))
    return phrase("{} spare" if slack_bytes >= 0 else "{} over", spare)


def _notes(use: MemoryUse, *, is_whole: bool) -> Iterator[Part]:
    if not is_whole:
        yield "where stages of a row differ, it has the least and the most; --json has each"
    yield from memory_notes(use)


def room_of(result: Outcome | Infeasible) -> MemoryRoom:
    """Of a device of the fullest stage."""
    use, plan = result.memory, result.plan
    chip = pool_of_stage(plan, result.cluster, use.fullest.stage).chip
    return memory_room(use.need_bytes, use.limit_bytes, chip, plan.framework)


def room_rows(result: Outcome | Infeasible) -> tuple[Entry, ...]:
    """Need with its interval and the chance that it fits; then what is usable, and what has the rest."""
    use = result.memory
    held_bytes = use.reserve_bytes + use.runtime_bytes
    held = TextOnly("reserve_bytes and runtime_bytes", format_bytes(held_bytes))
    return (
        phrase(
            "{} on the fullest device{}; {}",
            Figure("memory.need_bytes", use.need_bytes, format_bytes(use.need_bytes)),
            phrase(", {} of it CUDA context, NCCL and allocator", held) if held_bytes > 0 else "",
            fit_phrase(result),
            label="memory",
        ),
        phrase(
            "{} {}",
            Figure("memory.limit_bytes", use.limit_bytes, format_bytes(use.limit_bytes)),
            usable_phrase(result),
            label="usable",
        ),
    )


def fit_phrase(result: Outcome | Infeasible, within: str = "") -> Phrase:
    """The interval of the need and the chance that it fits, which are of one distribution; keys begin with `within`."""
    room = room_of(result)
    lower, upper = _ends(room)
    return phrase(
        "{} to {} in nine of ten runs: fits {} with {}",
        Figure(f"{within}memory.lower_bytes", room.lower_bytes, lower),
        Figure(f"{within}memory.upper_bytes", room.upper_bytes, upper),
        Figure(f"{within}memory.visible_bytes", room.visible_bytes, format_bytes(room.visible_bytes)),
        Figure(f"{within}memory.fit_probability", room.fit_probability, likely(room.fit_probability)),
    )


def usable_phrase(result: Outcome | Infeasible, within: str = "") -> Phrase:
    """Of which capacity so much is usable, and what has the rest."""
    room = room_of(result)
    scale_bytes, symbol = unit_of_bytes(room.capacity_bytes)

    def figure_of(key: str) -> Figure:
        value_bytes = getattr(room, key)
        return Figure(f"{within}memory.{key}", value_bytes, f"{value_bytes / scale_bytes:.1f} {symbol}")

    driver = phrase("driver and ECC have {}, " if room.driver_bytes > 0 else "", figure_of("driver_bytes"))
    reason = labelled(f"{within}memory.kept_free_for", room.kept_free_for)
    template = "{} is kept free {}" if room.kept_free_bytes > 0 else "nothing is kept free"
    kept = phrase(template, figure_of("kept_free_bytes"), reason)
    return phrase("of {}: {}{}", figure_of("capacity_bytes"), driver, kept)


def _ends(room: MemoryRoom) -> tuple[str, str]:
    """The ends of the need's interval; the unit once where it is the same."""
    lower, upper = format_bytes(room.lower_bytes), format_bytes(room.upper_bytes)
    is_same = lower.rpartition(" ")[2] == upper.rpartition(" ")[2]
    return lower.rpartition(" ")[0] if is_same else lower, upper


def memory_notes(use: MemoryUse) -> Iterator[Phrase]:
    """Sentences: what the fullest stage needs, all counted, and what its host keeps."""

    def figure_of(key: str) -> Figure:
        value_bytes = getattr(use, key)
        return Figure(f"memory.{key}", value_bytes, format_bytes(value_bytes))

    yield phrase(
        "stage {} is fullest: with {} that the allocator reserves and {} of runtime it needs {} of {} usable: {}",
        _stage(use.fullest.stage, "stage", use.fullest.stage),
        figure_of("reserve_bytes"),
        figure_of("runtime_bytes"),
        figure_of("need_bytes"),
        figure_of("limit_bytes"),
        _verdict(use.need_bytes, use.limit_bytes),
    )
    if use.host_need_bytes > 0:
        yield phrase(
            "the host keeps {} for a device, of {}: {}",
            figure_of("host_need_bytes"),
            figure_of("host_limit_bytes"),
            _verdict(use.host_need_bytes, use.host_limit_bytes),
        )
