"""Operators under the roofs of their chip: what they compute per byte that they move, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.evaluate import Outcome
from dovetail.hardware.chip import Chip
from dovetail.hardware.heterogeneous import pools_of
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION
from dovetail.report.labels import percent
from dovetail.report.operator import LIMIT_LABELS
from dovetail.report.table import Table
from dovetail.step.stage_operators import StageOperator, stage_operators
from dovetail.units import format_bytes, format_rate, format_s
from dovetail.workload.operators import ATTENTIONS

LOOKS = {
    "matrix products": (BLUE, "circle"),
    "attention": (VERMILLION, "diamond"),
    "norms, softmax and loss": (GREEN, "square"),
    "element by element": (ORANGE, "triangle-up"),
    "update": (SKY, "star"),
}
PRODUCTS = ("linear", "expert_linear", "matmul", "convolution")
NORMS = ("layernorm", "rmsnorm", "batchnorm", "softmax")
LEAST_PX, MOST_PX = 7, 26  # of a dot, by its share of the time
ROOM = 2.0  # how far beyond dots and corners the picture goes, as a factor
LEAST = 20.0  # how far it goes to both sides of the corner at the least
MOST_ROWS = 60
DASHES = ("solid", "dot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """An operator: what one run computes, moves and takes, and what all runs of a step take."""

    name: str
    family: str
    flop: float
    hbm_bytes: float
    run_s: float
    total_s: float
    limit: str

    @property
    def flop_per_byte(self) -> float:
        return self.flop / self.hbm_bytes

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.run_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """What a chip can do at the most: bytes from HBM, and FLOP by each kind of unit, the fastest first."""

    chip: str
    hbm_bytes_per_s: float
    peaks: tuple[tuple[str, float], ...]  # style: (unit, FLOP/s) pairs

    @property
    def corner(self) -> float:
        """FLOP per byte from which on HBM does not hold the fastest units back."""
        return max(peak for _, peak in self.peaks) / self.hbm_bytes_per_s


def roofs_of(chip: Chip, dtype: str) -> Roofs:
    """As the datasheet has them; without tensor units where these do not multiply in `dtype`."""
    tensor = dict(chip.tensor.rates).get(dtype, 0.0)
    peaks = ((f"tensor units, {dtype}", tensor), ("vector units", chip.vector.peak_flop_per_s))
    return Roofs(
        chip=chip.name,
        hbm_bytes_per_s=chip.hbm.bandwidth_bytes_per_s,
        peaks=tuple((name, peak) for name, peak in peaks if peak > 0),
    )


def operators_roofline(outcome: Outcome) -> Chart:
    """Operators of a device of the slowest stage, without the waits around them."""
    stage = int(outcome.step.slowest_stage)
    plan = outcome.plan
    chip = pools_of(outcome.cluster)[plan.stage_pools[stage] if plan.stage_pools else 0].chip
    workload = outcome.workload
    found = stage_operators(workload.training_graph(), plan, outcome.cluster, stage, workload.precision)
    roofs = roofs_of(chip, outcome.workload.precision.compute)
    return roofline(roofs, [_dot(one) for one in found if _is_shown(one)])


def _is_shown(one: StageOperator) -> bool:
    """What computes nothing, or stays on the chip, has no place on axes that count both."""
    return one.flop > 0 and one.hbm_bytes > 0


def _dot(one: StageOperator) -> Dot:
    return Dot(
        name=f"{one.block}: {one.name}, {one.phase}",
        family=family_of(one.kind, one.phase),
        flop=one.flop,
        hbm_bytes=one.hbm_bytes,
        run_s=one.compute_s,
        total_s=one.total_s,
        limit=one.limit,
    )


def family_of(kind: str, phase: str = "") -> str:
    if phase == "update":
        return "update"
    if kind in PRODUCTS:
        return "matrix products"
    if kind in ATTENTIONS:
        return "attention"
    is_norm = kind in NORMS or kind.endswith("cross_entropy")
    return "norms, softmax and loss" if is_norm else "element by element"


def roofline(roofs: Roofs, dots: Sequence[Dot]) -> Chart:
    """Both axes logarithmic; dots as large as their share of the time."""
    ranked = sorted(dots, key=lambda dot: -dot.total_s)
    whole_s = sum(dot.total_s for dot in ranked) or 1.0
    families = [family for family in LOOKS if any(dot.family == family for dot in ranked)]
    data = [*_roofs(roofs, ranked), *(_trace(family, ranked, whole_s) for family in families)]
    return Chart(
        name="roofline",
        title=f"Roofline of the operators on {roofs.chip}",
        alt=_sentence(roofs, ranked, whole_s),
        figure={
            "data": data,
            "layout": layout(
                height=460,
                xaxis=axis("FLOP per byte of HBM traffic", type="log", tickformat="~g", dtick=1),
                yaxis=axis("FLOP/s", type="log", tickformat="~s", dtick=1),
            ),
        },
        table=_table(ranked, whole_s),
    )


def _trace(family: str, dots: Sequence[Dot], whole_s: float) -> Figure:
    own = [dot for dot in dots if dot.family == family]
    colour, symbol = LOOKS[family]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": family,
        "x": [dot.flop_per_byte for dot in own],
        "y": [dot.flop_per_s for dot in own],
        "text": [f"{said(dot.name)}<br>{percent(dot.total_s / whole_s)} of the time" for dot in own],
        "marker": {
            "color": colour,
            "symbol": symbol,
            "opacity": 0.8,
            "size": [LEAST_PX + (MOST_PX - LEAST_PX) * (dot.total_s / whole_s) ** 0.5 for dot in own],
        },
        "hovertemplate": "%{text}<br>%{x:.3~s} FLOP/B, %{y:.3~s}FLOP/s<extra></extra>",
    }


def _roofs(roofs: Roofs, dots: Sequence[Dot]) -> list[Figure]:
    """The slope of HBM up to the peak of each kind of unit."""
    hbm = roofs.hbm_bytes_per_s
    places = [dot.flop_per_byte for dot in dots] + [peak / hbm for _, peak in roofs.peaks]
    low, high = min(*places, roofs.corner / LEAST) / ROOM, max(*places, roofs.corner * LEAST) * ROOM
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": said(f"{name}: {format_rate(peak, 'FLOP/s')}"),
            "x": [low, peak / hbm, high],
            "y": [low * hbm, peak, peak],
            "line": {"color": GREY, "width": 2, "dash": dash},
            "hoverinfo": "skip",
        }
        for (name, peak), dash in zip(roofs.peaks, DASHES, strict=False)
    ]


def _sentence(roofs: Roofs, dots: Sequence[Dot], whole_s: float) -> str:
    if not dots:
        return "No operator both computes and moves bytes."
    longest = (
        f"{dots[0].name} runs at {format_rate(dots[0].flop_per_s, 'FLOP/s')} and waits for"
        f" {LIMIT_LABELS.get(dots[0].limit, dots[0].limit)}"
    )
    if len(dots) == 1:
        place = "below" if dots[0].flop_per_byte < roofs.corner else "above"
        own = f"{dots[0].flop_per_byte:.3g} FLOP per byte, {place} the {roofs.corner:.0f} of the roof's corner"
        return f"{longest}; it has {own}."
    under = sum(dot.total_s for dot in dots if dot.flop_per_byte < roofs.corner)
    return (
        f"{percent(under / whole_s, 0)} of operator time is spent below {roofs.corner:.0f} FLOP per byte, where HBM"
        f" sets the roof; the longest, {longest}."
    )


def _table(dots: Sequence[Dot], whole_s: float) -> Table:
    rows = tuple(
        (
            dot.name,
            dot.family,
            percent(dot.total_s / whole_s),
            format_s(dot.run_s),
            f"{dot.flop_per_byte:.3g}",
            format_rate(dot.flop_per_s, "FLOP/s"),
            format_bytes(dot.hbm_bytes),
            LIMIT_LABELS.get(dot.limit, dot.limit),
        )
        for dot in dots[:MOST_ROWS]
    )
    left = (f"the {len(dots) - MOST_ROWS:,} that take least are left out here",) if len(dots) > MOST_ROWS else ()
    return Table(
        title="Operators, the longest first",
        columns=("operator", "", "share", "one run", "FLOP/B", "rate", "moves", "waits for"),
        rows=rows,
        align="llrrrrrl",
        notes=left,
    )
