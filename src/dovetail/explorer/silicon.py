"""A chip as values for its page: to scale beside another, its parts, its roofline, and where its gain comes from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dovetail.errors import DovetailError
from dovetail.evaluate import Outcome, evaluate
from dovetail.explorer.answers import figures_of_job, prepared, result_of
from dovetail.explorer.designs import design_cluster, read_design
from dovetail.explorer.figures import figure_label
from dovetail.explorer.state import DEVICES, State
from dovetail.files.chip import chip_of
from dovetail.files.job import countable
from dovetail.files.uploaded import catalogue_entry
from dovetail.hardware.altered import altered
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import chips_of
from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.floorplan import area_by_part, floorplan, power_by_part
from dovetail.report.charts.palette import BLUE, ORANGE, PALE
from dovetail.report.charts.roofline import operators_roofline
from dovetail.report.labels import gain
from dovetail.report.table import Table
from dovetail.search.codesign.systems import system_of
from dovetail.search.codesign.waterfall import PARTS
from dovetail.units import format_s

FACTS: tuple[tuple[str, str, Callable[[Chip], float]], ...] = (
    ("HBM capacity", "bytes", lambda one: one.hbm.capacity_bytes),
    ("HBM bandwidth", "bytes_per_s", lambda one: one.hbm.bandwidth_bytes_per_s),
    ("SRAM", "bytes", lambda one: one.sram.capacity_bytes),
    ("clock", "hz", lambda one: one.clock_hz),
    ("power limit", "w", lambda one: one.tdp_w),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipShown:
    """What there is to see of a chip; `facts` has a row for each figure, of the chip and of the other."""

    name: str
    baseline: str
    facts: Table
    drawn: tuple[Chart, ...]
    parts: tuple[Chart, ...]
    roofline: tuple[Chart, ...]
    gains: tuple[Chart, ...]
    why_none: str = ""  # why there is nothing to say of a gain


def chip_shown(state: State, baseline: str) -> ChipShown:
    """The chip of the state's cluster beside a chip of the catalogue."""
    own = prepared(state)
    result = result_of(own, state)
    chip, other = chips_of(result.cluster)[0], chip_of(catalogue_entry(baseline))
    dtype = result.workload.precision.compute
    gains = gain_chart(state)
    return ChipShown(
        name=chip.name,
        baseline=other.name,
        facts=_facts(chip, other, dtype),
        drawn=floorplan(chip, other),
        parts=(*area_by_part((chip, other)), *power_by_part((chip, other))),
        roofline=(operators_roofline(result),) if isinstance(result, Outcome) else (),
        gains=gains,
        why_none="" if gains else _why_none(state),
    )


def _facts(chip: Chip, other: Chip, dtype: str) -> Table:
    def rate(one: Chip) -> str:
        known = dict(one.tensor.rates)
        return figure_label(one.peak_flop_per_s(dtype), "flop_per_s") if dtype in known else f"no {dtype}"

    rows = (
        (f"peak, {dtype}", rate(chip), rate(other)),
        *((label, figure_label(of(chip), unit), figure_label(of(other), unit)) for label, unit, of in FACTS),
    )
    return Table(title="Figures", columns=("", chip.name, other.name), rows=rows, align="lrr")


def _why_none(state: State) -> str:
    if state.factors or state.design:
        return "This plan does not fit on the way from one to the other, so the gain cannot be split into parts."
    way = "Change its figures on Hardware, or open a design of Search"
    return f"This is the chip as it is. {way}, to see what each part of the change gives."


def gain_chart(state: State) -> tuple[Chart, ...]:
    """What each change of the hardware adds to throughput, one after the other, with the plan as it is."""
    try:
        steps = list(_steps(state))
    except DovetailError:
        return ()
    if len(steps) < 2:
        return ()
    first_s = steps[0][1]
    gains = [first_s / step_s - 1.0 for _, step_s in steps]
    labels = [label for label, _ in steps[1:]]
    added = [now - before for before, now in itertools.pairwise(gains)]
    figure = ranked(
        [*labels, "together"],
        [*added, gains[-1]],
        [gain(one) for one in (*added, gains[-1])],
        [*(BLUE if one > 0 else PALE for one in added), ORANGE],
        f"throughput over {steps[0][0]}",
        hover="%{y}: %{text}",
        details=[*labels, "all of them"],
        tickformat="~%",
        starts=[*gains[:-1], 0.0],
    )
    most = max(range(len(added)), key=lambda place: abs(added[place]))
    rows = tuple(
        (label, format_s(step_s), gain(one)) for (label, step_s), one in zip(steps, (0.0, *added), strict=True)
    )
    return (
        Chart(
            name="gain-by-part",
            title=f"From {steps[0][0]} to this chip, one change at a time",
            alt=f"Most comes from {labels[most]}: {gain(added[most])} of {gain(gains[-1])}, with the plan as it is.",
            figure=figure,
            table=Table(title="Changes", columns=("", "step", "adds"), rows=rows, align="lrr"),
        ),
    )


def _steps(state: State) -> Iterator[tuple[str, float]]:
    """Seconds of a step on the chip that changes are from, and after each of them; raises where one does not fit."""
    for label, cluster in (*_designed(state), *_turned(state)):
        own = prepared(replace(state, factors={key: v for key, v in state.factors.items() if key == DEVICES}))
        with countable():
            found = evaluate(own.job.workload, cluster, own.plan, has_changes=False)
        if isinstance(found, Outcome):
            yield label, float(found.step.step_s)


def _designed(state: State) -> Iterator[tuple[str, Cluster]]:
    """From the base chip of a design to the design, part by part."""
    if not state.design:
        return
    base, network, system = read_design(state.design)
    now = system_of(chip_of(catalogue_entry(base)), int(system["num_devices"]))
    now |= {"num_devices": system["num_devices"], "network": system["network"]}
    yield base, design_cluster(_word(base, network, now), state.devices)
    for part, knobs in PARTS.items():
        changed = {name: system[name] for name in knobs if system[name] != now.get(name)}
        if changed:
            now = now | changed
            yield part, design_cluster(_word(base, network, now), state.devices)


def _word(base: str, network: str, system: dict[str, float]) -> str:
    from dovetail.explorer.designs import design_word

    return design_word(base, network, system)


def _turned(state: State) -> Iterator[tuple[str, Cluster]]:
    """From the hardware as it is to the hardware as it was changed, figure by figure."""
    factors = {key: factor for key, factor in state.factors.items() if key != DEVICES}
    if not factors:
        return
    own = prepared(replace(state, factors={key: v for key, v in state.factors.items() if key == DEVICES}))
    cluster, dtype = own.job.cluster, own.job.workload.precision.compute
    if not isinstance(cluster, Cluster):
        return
    if not state.design:
        yield f"{cluster.chip.name} as it is", cluster
    labels = {figure.key: figure.label for figure in figures_of_job(own.job)}
    done: dict[str, float] = {}
    for key, factor in sorted(factors.items()):
        done[key] = factor
        yield f"{labels.get(key, key)} ×{factor:.3g}", altered(cluster, done, dtype)
