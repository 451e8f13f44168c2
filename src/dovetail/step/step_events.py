"""One step as events: every pass of every stage, one microbatch operator by operator, and what ends the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.step.assembly import Assembly
from dovetail.step.called import CalledCollective, Note, send_calls, sync_calls, tied_calls
from dovetail.step.hops import hop_kinds
from dovetail.step.pass_detail import BESIDE, Spell, StageDetail
from dovetail.step.pass_order import Kind
from dovetail.step.pipeline_events import Timeline
from dovetail.step.stage_steps import step_timeline
from dovetail.step.step import assembly_of
from dovetail.step.work import COMM_AXES
from dovetail.workload.graph import Graph, IntArray
from dovetail.workload.optimizer import Precision

PIPELINE, ON, BACK = "pipeline", "pp, on to the next stage", "pp, back to the one before"
LABELS = {Kind.FORWARD: "forward", Kind.BACKWARD: "backward", Kind.INPUT: "input", Kind.WEIGHT: "weight"}
_JoinedSpan = tuple[str, float, float, float]  # track, begin, end, and seconds between them that it is busy
PASSES = tuple(LABELS.values())  # the categories of events in which a stage works on a microbatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that lasts on a device of a stage; `notes` say of what it is."""

    name: str
    track: str
    begin_s: float
    end_s: float
    category: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepEvents:
    """A step played out. `microbatch` is the one that is told operator by operator; `end_s` when all is over.

    `pipeline_s` is the pipeline in closed form, which the step is told from, and `timeline` the same pass by pass.
    """

    assembly: Assembly
    timeline: Timeline
    microbatch: int
    detail: StageDetail

    @property
    def num_stages(self) -> int:
        return len(self.timeline.order.devices)

    @property
    def end_s(self) -> float:
        assembly = self.assembly
        return self.timeline.pipeline_s + float(
            (assembly.tied_s + assembly.synced_s + assembly.landing_s + assembly.update_s)[0]
        )

    @property
    def later_s(self) -> float:
        """How much later the step ends pass by pass than in closed form."""
        return self.end_s - float(self.assembly.step_s[0])

    def num_passes(self, stage: int) -> int:
        return len(self.timeline.order.devices[stage])

    def stage(self, stage: int) -> Iterator[Event]:
        """All that a device of `stage` does."""
        yield from self._passes(stage)
        if self.assembly.is_beside[0]:
            yield from self.sends(stage)
        yield from self._operators(stage)
        yield from self.step_end(stage)

    def _passes(self, stage: int) -> Iterator[Event]:
        """Passes as they run, those that run as one together."""
        rows = self.timeline.order.devices[stage]
        has_chunks = self.timeline.order.chunks_per_device > 1
        starts_s, ends_s = self.timeline.starts_s[stage].tolist(), self.timeline.ends_s[stage].tolist()
        names = [_pass_name(row, has_chunks=has_chunks) for row in rows.tolist()]
        index = 0
        while index < len(rows):
            kind, chunk, microbatch, is_joined = (int(value) for value in rows[index])
            name = f"{names[index]} + {names[index + 1]}" if is_joined else names[index]
            yield Event(
                name=name,
                track=PIPELINE,
                begin_s=starts_s[index],
                end_s=ends_s[index],
                category=LABELS[Kind(kind)],
                notes=(("microbatch", microbatch), ("chunk", chunk)),
            )
            index += 1 + is_joined

    def sends(self, stage: int) -> Iterator[Event]:
        """What is handed to other stages beside compute, as each pass ends; links do not queue."""
        order, group = self.timeline.order, self.assembly.group
        homes, rows = order.chunk_devices, order.devices[stage]
        transfer_s = np.ravel(self.assembly.transfer_s[0])
        within = _several(send_calls(self.assembly, stage))
        for (kind, chunk, microbatch, _), end_s in zip(
            rows.tolist(), self.timeline.ends_s[stage].tolist(), strict=True
        ):
            is_forward, place = kind == Kind.FORWARD, chunk % order.route_length
            if kind == Kind.WEIGHT or place == (order.route_length - 1 if is_forward else 0):
                continue
            other = int(homes[chunk + 1 if is_forward else chunk - 1])
            if other == stage:
                continue
            hop = int(hop_kinds(np.array([stage]), np.array([other]), group.stage_pool)[0])
            yield Event(
                name=f"{'activations' if is_forward else 'gradients'} {microbatch}",
                track=ON if is_forward else BACK,
                begin_s=end_s,
                end_s=end_s + float(transfer_s[hop]),
                category="pp",
                notes=(
                    ("microbatch", microbatch),
                    ("to_stage", other),
                    *(within if not group.stage_pool or group.stage_pool[stage] == group.stage_pool[other] else ()),
                ),
            )

    def _operators(self, stage: int) -> Iterator[Event]:
        """One microbatch operator by operator: a direction's spells dealt out to its passes, chunk after chunk."""
        rows = self.timeline.order.devices[stage]
        mine = rows[:, 2] == self.microbatch
        is_split = bool(np.any(mine & (rows[:, 0] == Kind.INPUT)))
        spells = self.detail.passes(self.assembly.group.stage_run[stage], is_split=is_split)
        for kind, word in LABELS.items():
            if word in spells:
                spans = self._spans(stage, np.flatnonzero(mine & (rows[:, 0] == kind)))
                yield from (event for spell in spells[word] for event in _dealt(spell, spans, word))

    def communication(self, stage: int, gap_s: float) -> Iterator[Event]:
        """Collectives of every pass of a device of `stage` by axis; those less than `gap_s` apart as one.

        All microbatches run the same collectives, so what is known of one is put where each pass runs.
        """
        rows = self.timeline.order.devices[stage]
        is_split = bool(np.any(rows[:, 0] == Kind.INPUT))
        spells = self.detail.passes(self.assembly.group.stage_run[stage], is_split=is_split)
        for kind, word in LABELS.items():
            places = np.flatnonzero(rows[:, 0] == kind)
            if word not in spells or not len(places):
                continue
            own = [spell for spell in spells[word] if spell.track.removesuffix(f" {BESIDE}") in COMM_AXES]
            spans, seen = self._spans(stage, places), dict[int, int]()
            own_s = spans[0][1] - spans[0][0]
            chunks = self.timeline.order.chunks_per_device
            joined = [_joined(own, turn * own_s, (turn + 1) * own_s, gap_s) for turn in range(chunks)]
            for row, (begin_s, _) in zip(places.tolist(), spans, strict=True):
                microbatch = int(rows[row, 2])
                turn = seen.get(microbatch, 0)
                seen[microbatch] = turn + 1
                for track, from_s, to_s, busy_s in joined[turn % chunks]:
                    axis = track.removesuffix(f" {BESIDE}")
                    yield Event(
                        name=f"{word} {microbatch}",
                        track=track,
                        begin_s=begin_s + from_s,
                        end_s=begin_s + to_s,
                        category=axis,
                        notes=(("microbatch", microbatch), ("busy_frac", busy_s / (to_s - from_s))),
                    )

    def _spans(self, stage: int, rows: IntArray) -> list[tuple[float, float]]:
        """Begin and end of some passes; of two that run as one, the first comes first."""
        order, run = self.timeline.order, self.assembly.group.stage_run[stage]
        forward_s, backward_s, weight_s = (
            float(np.asarray(way)[0, run]) / order.chunks_per_device
            for way in self.assembly.stage_times(is_transfer_free=False).by_run
        )
        lasts_s = {Kind.FORWARD: forward_s, Kind.BACKWARD: backward_s}
        lasts_s |= {Kind.INPUT: backward_s - weight_s, Kind.WEIGHT: weight_s}
        passes = order.devices[stage]
        spans = []
        for row in rows.tolist():
            begin_s, pass_s = float(self.timeline.starts_s[stage][row]), lasts_s[Kind(int(passes[row, 0]))]
            if row and passes[row - 1, 3]:
                begin_s = float(self.timeline.ends_s[stage][row]) - pass_s
            spans.append((begin_s, begin_s + pass_s))
        return spans

    def step_end(self, stage: int) -> Iterator[Event]:
        """What is exchanged once a step, hidden and not, and the update; all stages wait for the last."""
        assembly, run = self.assembly, self.assembly.group.stage_run[stage]
        hidden_s, exposed_s = float(assembly.hidden_s[0, run]), float(assembly.exposed_s[0, run])
        last_s, clock_s = float(self.timeline.ends_s[stage][-1]), self.timeline.pipeline_s
        notes = _several(sync_calls(assembly, stage))
        if hidden_s:
            words = "gradients and weights, hidden"
            yield _event(words, f"dp {BESIDE}", max(0.0, last_s - hidden_s), last_s, "dp", notes)
        for one in tied_calls(assembly, stage):
            yield from _on_both("gradients of tied weights", ON, clock_s, clock_s + one.time_s, "pp", one.notes)
        clock_s += float(assembly.tied_s[0])
        if exposed_s:
            yield from _on_both("gradients and weights", "dp", clock_s, clock_s + exposed_s, "dp", notes)
        clock_s += float(assembly.synced_s[0])
        if assembly.landing_s[0]:
            landed_s = clock_s + float(assembly.landing_s[0])
            yield _event("gradients to the host", PIPELINE, clock_s, landed_s, "offload")
            clock_s = landed_s
        update_s = float(assembly.columns.update_s[assembly.columns.update_of[0], run])
        yield _event("update", PIPELINE, clock_s, clock_s + update_s, "update")


def step_events(graph: Graph, plan: Plan, cluster: AnyCluster, precision: Precision) -> StepEvents:
    """One step of `graph` by `plan` on `cluster`, the middle microbatch operator by operator."""
    assembly = assembly_of(graph, plan, cluster, precision)
    timeline = step_timeline(graph, plan, cluster, precision)
    middle = timeline.order.num_microbatches // 2
    return StepEvents(assembly=assembly, timeline=timeline, microbatch=middle, detail=StageDetail(assembly, plan))


def _pass_name(row: Sequence[int], *, has_chunks: bool) -> str:
    kind, chunk, microbatch, _ = row
    return f"{LABELS[Kind(kind)]} {microbatch}" + (f", chunk {chunk}" if has_chunks else "")


def _dealt(spell: Spell, spans: Sequence[tuple[float, float]], category: str) -> Iterator[Event]:
    """A spell where it falls among passes of one length; what lies across two is cut, and the last may run over."""
    notes: tuple[Note, ...] = (("pass", category),)
    notes += (("block", spell.block),) if spell.block else ()
    notes += (("limited_by", spell.limit),) if spell.limit else ()
    notes += spell.notes
    own_s = spans[0][1] - spans[0][0]
    for index, (begin_s, _) in enumerate(spans):
        first_s, last_s = index * own_s, (index + 1) * own_s if index + 1 < len(spans) else np.inf
        cut_s = max(spell.begin_s, first_s), min(spell.end_s, last_s)
        if cut_s[1] > cut_s[0]:
            from_s, to_s = (float(begin_s + moment_s - first_s) for moment_s in cut_s)
            yield Event(
                name=spell.name, track=spell.track, begin_s=from_s, end_s=to_s, category=spell.track, notes=notes
            )


def _joined(spells: Sequence[Spell], first_s: float, last_s: float, gap_s: float) -> list[_JoinedSpan]:
    """What lies between two moments of a direction, from the first on, small gaps closed."""
    found: list[_JoinedSpan] = []
    for track in dict.fromkeys(spell.track for spell in spells):
        cuts = sorted((max(s.begin_s, first_s), min(s.end_s, last_s)) for s in spells if s.track == track)
        for begin_s, end_s in ((a - first_s, b - first_s) for a, b in cuts if b > a):
            if found and found[-1][0] == track and begin_s - found[-1][2] <= gap_s:
                _, from_s, to_s, busy_s = found[-1]
                found[-1] = (track, from_s, max(to_s, end_s), busy_s + max(0.0, end_s - max(to_s, begin_s)))
            else:
                found.append((track, begin_s, end_s, end_s - begin_s))
    return found


def _several(calls: Sequence[CalledCollective]) -> tuple[Note, ...]:
    """Notes of a slice that several collectives share: one after another, numbered where there is more than one."""
    if len(calls) == 1:
        return calls[0].notes
    return tuple((f"{key} {number}", value) for number, one in enumerate(calls, 1) for key, value in one.notes)


def _event(name: str, track: str, begin_s: float, end_s: float, category: str, notes: tuple[Note, ...] = ()) -> Event:
    return Event(name=name, track=track, begin_s=begin_s, end_s=end_s, category=category, notes=notes)


def _on_both(
    name: str, track: str, begin_s: float, end_s: float, category: str, notes: tuple[Note, ...] = ()
) -> Iterator[Event]:
    """On the link's track, and on the pipeline's, which waits for it."""
    yield _event(name, track, begin_s, end_s, category, notes)
    yield _event(name, PIPELINE, begin_s, end_s, "exchange", notes)
