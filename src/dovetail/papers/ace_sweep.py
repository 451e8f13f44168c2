"""Every size and configuration of a workload, what ACE gains over the best baseline, and the fit of its one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.comm.endpoint.ace_engine import AceDesign
from dovetail.comm.torus import ACE_SHAPES, ace_torus
from dovetail.step.one_device.ace_loop import (
    BASELINES,
    CONFIGURATIONS,
    Configuration,
    Fabric,
    Iteration,
    simulated_iteration,
)
from dovetail.step.one_device.training_program import Program

LINK_FRAC = 0.94  # ACE (Rashidi et al., ISCA 2021)
PAPER = {"resnet-50": (1.41, 1.51), "gnmt": (1.12, 1.17), "dlrm": (1.13, 1.19)}  # ACE, abstract: average, maximum


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload on one torus in all configurations."""

    num_devices: int
    iterations: tuple[tuple[str, Iteration], ...]

    def of(self, name: str) -> Iteration:
        return dict(self.iterations)[name]

    def gain(self, baseline: str) -> float:
        """How many times faster than `baseline` ACE is."""
        return self.of(baseline).iteration_s / self.of("ACE").iteration_s

    def utilisation_gain(self, baseline: str) -> float:
        """How many times better than in `baseline` ACE fills the links while there is something to send."""
        return self.of("ACE").utilisation_frac / self.of(baseline).utilisation_frac

    @property
    def best(self) -> str:
        """The baseline with the shortest iteration here."""
        return min(BASELINES, key=lambda name: self.of(name).iteration_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One workload on all tori. Its best baseline is one configuration: the one with the least time over all sizes."""

    cells: tuple[Cell, ...]

    @property
    def best(self) -> str:
        return min(BASELINES, key=lambda name: sum(cell.of(name).iteration_s for cell in self.cells))

    @property
    def gains(self) -> tuple[float, ...]:
        return tuple(cell.gain(self.best) for cell in self.cells)

    @property
    def utilisation_gains(self) -> tuple[float, ...]:
        return tuple(cell.utilisation_gain(self.best) for cell in self.cells)


def sweep(
    programs: dict[str, Program],
    compute_scale: float,
    *,
    configurations: Sequence[Configuration] = CONFIGURATIONS,
    is_improved: bool = False,
) -> Sweep:
    """All four tori; ACE with the partitions, FSMs, adders and banks of the design that T3 is about."""
    made = []
    for num_devices, shape in ACE_SHAPES.items():
        results = []
        for configuration in configurations:
            torus = ace_torus(*shape, link_frac=LINK_FRAC)
            fabric = Fabric(torus=torus, configuration=configuration, design=AceDesign())
            work = programs[configuration.name].scaled(compute_scale)
            results.append((configuration.name, simulated_iteration(work, fabric, is_improved=is_improved)))
        made.append(Cell(num_devices=num_devices, iterations=tuple(results)))
    return Sweep(cells=tuple(made))


def redesigned(
    swept: Sweep, programs: dict[str, Program], compute_scale: float, design: AceDesign, *, is_partitioned: bool = True
) -> Sweep:
    """The same with another ACE: of `design`, or whose SRAM is one pool that every FSM serves."""
    ace = next(configuration for configuration in CONFIGURATIONS if configuration.name == "ACE")
    work = programs["ACE"].scaled(compute_scale)
    made = []
    for cell in swept.cells:
        torus = ace_torus(*ACE_SHAPES[cell.num_devices], link_frac=LINK_FRAC)
        fabric = Fabric(torus=torus, configuration=ace, design=design, is_sram_partitioned=is_partitioned)
        results = dict(cell.iterations) | {"ACE": simulated_iteration(work, fabric)}
        made.append(replace(cell, iterations=tuple(results.items())))
    return Sweep(cells=tuple(made))


def average_and_maximum(values: Sequence[float]) -> tuple[float, float]:
    return sum(values) / len(values), max(values)


def misfit(programs: dict[str, Program], compute_scale: float, paper: tuple[float, float]) -> float:
    """Sum of squared relative errors of the average and the maximum speedup."""
    needed = [configuration for configuration in CONFIGURATIONS if configuration.name in (*BASELINES, "ACE")]
    ours = average_and_maximum(sweep(programs, compute_scale, configurations=needed).gains)
    errors = [mine / theirs - 1 for mine, theirs in zip(ours, paper, strict=True)]
    return math.fsum(error * error for error in errors)


def fitted_scale(programs: dict[str, Program], paper: tuple[float, float], lo: float, hi: float) -> float:
    """The scale of least misfit between `lo` and `hi`: a coarse sweep in logarithm, then twice a finer one."""
    best = lo
    for num_points in (9, 7, 7):
        step = math.pow(hi / lo, 1 / (num_points - 1))
        points = [lo * math.pow(step, i) for i in range(num_points)]
        best = min(points, key=lambda scale: misfit(programs, scale, paper))
        lo, hi = best / step, best * step
    return best
