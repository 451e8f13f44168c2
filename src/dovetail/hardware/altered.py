"""A cluster with other figures than its own: what if its memory were faster, its links slower, its clock higher?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.measured import NOT_MEASURED

MOST_TIMES = 4.0  # either way: further off is another chip, not this one with a figure changed
LINK = "link-"  # before a dimension's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number of a cluster that may be another; `unit` is as `units.quantity` has it, `note` what moves with it."""

    key: str
    label: str
    unit: str
    value: float  # style: in base units of `unit`
    scaled: Callable[[Cluster, float], Cluster]
    note: str = ""


def figures_of(cluster: Cluster, dtype: str) -> tuple[Figure, ...]:
    """What may be changed of `cluster`, with its own numbers; `dtype` is what products are computed in."""
    links = (_link(cluster, dimension.name) for dimension in cluster.topology.dimensions)
    return (*_memory_figures(cluster.chip), *_rate_figures(cluster.chip, dtype), *links)


def _memory_figures(chip: Chip) -> tuple[Figure, ...]:
    return (
        Figure(
            key="hbm-bandwidth",
            label="HBM bandwidth",
            unit="bytes_per_s",
            value=chip.hbm.bandwidth_bytes_per_s,
            scaled=_of_chip(_faster_hbm),
        ),
        Figure(
            key="hbm-capacity",
            label="HBM capacity",
            unit="bytes",
            value=chip.hbm.capacity_bytes,
            scaled=_of_chip(_larger_hbm),
        ),
    )


def _rate_figures(chip: Chip, dtype: str) -> tuple[Figure, ...]:
    return (
        Figure(
            key="peak",
            label=f"peak FLOP/s, {dtype}",
            unit="flop_per_s",
            value=chip.peak_flop_per_s(dtype),
            scaled=_of_chip(lambda own, factor: replace(own, tensor=own.tensor.scaled(factor))),
            note="of the tensor units, the same for every dtype",
        ),
        Figure(
            key="clock",
            label="clock",
            unit="hz",
            value=chip.clock_hz,
            scaled=_of_chip(_clocked),
            note="tensor units, vector units and SRAM go with it; joules of an operation and the power limit stay",
        ),
        Figure(
            key="power",
            label="power limit",
            unit="w",
            value=chip.tdp_w,
            scaled=_of_chip(lambda own, factor: replace(own, tdp_w=own.tdp_w * factor)),
        ),
    )


def altered(cluster: Cluster, factors: Mapping[str, float], dtype: str) -> Cluster:
    """`cluster` with figures by key times these factors; raises where there is no such figure, or it goes too far."""
    known = {figure.key: figure for figure in figures_of(cluster, dtype)}
    for key, factor in factors.items():
        if key not in known:
            raise InvalidInput(f"no figure of {cluster.name} is named {key[:60]!r}{did_you_mean(key[:60], known)}")
        if not 1 / MOST_TIMES <= factor <= MOST_TIMES:
            bounds = f"{1 / MOST_TIMES:g} to {MOST_TIMES:g} times its own"
            raise InvalidInput(f"{known[key].label} may be {bounds}; got {factor:g} times")
        if factor != 1:
            cluster = known[key].scaled(cluster, factor)
    return cluster


def _of_chip(change: Callable[[Chip, float], Chip]) -> Callable[[Cluster, float], Cluster]:
    """A change of a cluster's chip, of which nothing was measured as it then is."""
    return lambda own, factor: replace(own, chip=replace(change(own.chip, factor), measured=NOT_MEASURED))


def _faster_hbm(chip: Chip, factor: float) -> Chip:
    return replace(chip, hbm=replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * factor))


def _larger_hbm(chip: Chip, factor: float) -> Chip:
    return replace(chip, hbm=replace(chip.hbm, capacity_bytes=chip.hbm.capacity_bytes * factor))


def _clocked(chip: Chip, factor: float) -> Chip:
    """Everything that does so much a clock, by another clock."""
    return replace(
        chip,
        clock_hz=chip.clock_hz * factor,
        tensor=chip.tensor.scaled(factor),
        vector=replace(chip.vector, peak_flop_per_s=chip.vector.peak_flop_per_s * factor),
        sram=replace(chip.sram, bandwidth_bytes_per_s=chip.sram.bandwidth_bytes_per_s * factor),
    )


def _link(cluster: Cluster, name: str) -> Figure:
    [dimension] = [one for one in cluster.topology.dimensions if one.name == name]
    return Figure(
        key=f"{LINK}{name}",
        label=f"{name} bandwidth",
        unit="bytes_per_s",
        value=dimension.link.bandwidth_bytes_per_s,
        scaled=lambda own, factor: replace(own, topology=own.topology.with_link_scaled(name, factor)),
        note="of one device, one way",
    )
