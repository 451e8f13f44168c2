"""A simulated step as tracks for a viewer: a process for a device of each stage, or for the devices that are named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome
from dovetail.hardware.topology import Group
from dovetail.parallel.placement import Placement
from dovetail.parallel.ranks import first_device, stage_of
from dovetail.report.labels import counted
from dovetail.report.tracks import Process, Slice, Track
from dovetail.step.pass_detail import UNITS, WAITS
from dovetail.step.step_events import BACK, ON, PIPELINE, Event, StepEvents, step_events
from dovetail.step.work import COMM_AXES
from dovetail.units import format_s

MOST_SLICES = 200_000  # style: a count; some 20 MB of Perfetto trace
FIRST = (PIPELINE, *UNITS.values(), WAITS)  # the order of tracks; those of links follow, axis by axis
GROUPS = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}  # of a Placement
SAME_FRAC = 1e-9  # style: a tolerance; pass by pass and in closed form a step ends at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTracks:
    """Processes of a step, and sentences on what they leave out."""

    processes: tuple[Process, ...]
    notes: tuple[str, ...]
    end_s: float


def step_tracks(outcome: Outcome, devices: Sequence[int] = ()) -> StepTracks:
    """The step of `outcome` on `devices`; without any, on the first device of every stage, or of some if that is long.

    Devices of a stage do the same at the same time in the model, so that one of them stands for all.
    """
    graph = outcome.workload.training_graph()
    events = step_events(graph, outcome.plan, outcome.cluster, outcome.workload.precision)
    if devices:
        chosen = _checked(outcome, devices)
        shown = [(device, stage_of(outcome.plan, outcome.cluster, device)) for device in chosen]
    else:
        stages = _stages(events)
        shown = [(first_device(outcome.plan, outcome.cluster, stage), stage) for stage in stages]
    _check_length(events, [stage for _, stage in shown])
    processes = tuple(_process(outcome, events, device, stage, is_one=not devices) for device, stage in shown)
    return StepTracks(processes=processes, notes=tuple(_notes(outcome, events, shown)), end_s=events.end_s)


def _checked(outcome: Outcome, devices: Sequence[int]) -> tuple[int, ...]:
    most = outcome.cluster.num_devices - 1
    for device in devices:
        if device > most:
            raise InvalidInput(f"ranks are devices, 0 to {most}; got {device}", "--ranks")
    return tuple(dict.fromkeys(devices))


def _stages(events: StepEvents) -> list[int]:
    """All stages, or where these have too many passes the first of each run of stages alike, and the last."""
    every = list(range(events.num_stages))
    if _num_slices(events, every) <= MOST_SLICES:
        return every
    return sorted({*(run.first_stage for run in events.assembly.group.runs), events.num_stages - 1})


def _num_slices(events: StepEvents, stages: Sequence[int]) -> int:
    """Slices of passes and of what is handed on; operators of one microbatch are few beside them."""
    return sum(2 * events.num_passes(stage) for stage in stages)


def _check_length(events: StepEvents, stages: Sequence[int]) -> None:
    count = _num_slices(events, stages)
    if count > MOST_SLICES:
        rule = f"a timeline has at most {MOST_SLICES:,} slices, and passes of {counted(len(stages), 'device')}"
        raise InvalidInput(f"{rule} are {count:,}; name fewer of the ranks, as in --ranks 0", "--perfetto")


def _process(outcome: Outcome, events: StepEvents, device: int, stage: int, *, is_one: bool) -> Process:
    alike = outcome.cluster.num_devices // outcome.plan.pipeline_parallel
    whose = f", the same on {alike:,}" if is_one and alike > 1 else ""
    name = f"stage {stage}: device {device}{whose}"
    place = outcome.placements[outcome.plan.stage_pools[stage] if outcome.plan.stage_pools else 0]
    return Process(number=device + 1, name=name, tracks=tuple(_tracks(events.stage(stage), place)))


def _tracks(events: Iterator[Event], place: Placement) -> Iterator[Track]:
    by_track: dict[str, list[Event]] = {}
    for event in events:
        by_track.setdefault(event.track, []).append(event)
    links = [name for axis in COMM_AXES for name in sorted(by_track) if name not in FIRST and name.startswith(axis)]
    for name in (*(name for name in FIRST if name in by_track), *links):
        shown = name if name in FIRST else _link_name(name, place)
        for number, lane in enumerate(_lanes(by_track[name])):
            lane_name = shown if not number else f"{shown} ({number + 1})"
            yield Track(name=lane_name, slices=tuple(map(_slice, lane)))


def _link_name(name: str, place: Placement) -> str:
    """A track of an axis with the dimensions of the network that the axis lies on."""
    group: Group = getattr(place, GROUPS[name[:2]])
    dimensions = " x ".join(dict.fromkeys(span.dimension.name for span in group))
    if not dimensions and name in (ON, BACK):
        dimensions = "between pools"
    return f"{name} ({dimensions})" if dimensions else name


def _lanes(events: Sequence[Event]) -> list[list[Event]]:
    """Events that lie beside each other go to different lanes, as few as it takes."""
    lanes: list[list[Event]] = []
    for event in sorted(events, key=lambda one: (one.begin_s, one.end_s)):
        room_s = SAME_FRAC * event.begin_s  # sums of the same seconds in another order
        free = next((lane for lane in lanes if lane[-1].end_s <= event.begin_s + room_s), None)
        if free is None:
            lanes.append([event])
        else:
            begin_s = max(event.begin_s, free[-1].end_s)
            free.append(replace(event, begin_s=begin_s, end_s=max(begin_s, event.end_s)))
    return lanes


def _slice(event: Event) -> Slice:
    notes = (("duration_s", event.end_s - event.begin_s), *event.notes)
    return Slice(name=event.name, begin_s=event.begin_s, end_s=event.end_s, category=event.category, notes=notes)


def _notes(outcome: Outcome, events: StepEvents, shown: Sequence[tuple[int, int]]) -> Iterator[str]:
    num_stages, stages = events.num_stages, {stage for _, stage in shown}
    if len(stages) < num_stages:
        yield f"{len(stages)} of {num_stages:,} stages are shown; --ranks names devices of others"
    if len(shown) < outcome.cluster.num_devices:
        yield "devices of a stage do the same at the same time: one stands for all"
    yield f"operators and collectives are those of microbatch {events.microbatch}, one of {outcome.num_microbatches:,}"
    if events.later_s > SAME_FRAC * events.end_s:
        share = f"{100 * events.later_s / (events.end_s - events.later_s):.2f} %"
        yield f"pass by pass the step ends at {format_s(events.end_s)}, {share} after the closed form"
