"""Where the gain of the best system over the base chip comes from, one change at a time, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dovetail.hardware.chip import Chip
from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, ORANGE, PALE
from dovetail.report.figures import Figure, FigureList, Figures, TextOnly, labelled, phrase
from dovetail.report.labels import gain, likely, number, percent
from dovetail.report.table import Table
from dovetail.search.codesign.system_labels import value_label
from dovetail.search.codesign.waterfall import Change, Waterfall

_UNITS = {
    "num_tensor": "arrays",
    "num_rows": "rows",
    "num_cols": "columns",
    "dataflow": "",
    "core_buffer_kib": "KiB a core",
    "num_vector": "cores",
    "num_lanes": "lanes",
    "register_bytes_per_lane": "B a lane",
    "vmem_mib": "MiB a core",
    "vmem_bytes_per_clock": "B per clock",
    "sram_mib": "MiB",
    "sram_bytes_per_clock": "B per clock",
    "hbm_stacks": "stacks",
    "stack_gib": "GiB a stack",
    "clock_mhz": "MHz",
    "endpoint": "",
    "link_gb_per_s": "GB/s",
    "network": "",
    "num_devices": "devices",
}


def waterfall_figures(found: Waterfall, base: Chip) -> Figures:
    """Every change from `base` to the best system, and what they come to together."""
    return (
        FigureList(
            key="waterfall.changes",
            title=f"From {base.name} to it, one change at a time",
            items=found.changes,
            figures=_change,
            notes=(
                "in this order, with the plans of the base chip as long as they fit: what a part is worth depends on"
                " those before it, and chips on the way may be beyond the limits, which the last keeps",
                phrase(
                    "together {}; truly better than {} with {}, if the step of each is off by {}, as published runs of"
                    " this kind are, independently",
                    Figure("waterfall.gain_frac", found.gain_frac, gain(found.gain_frac)),
                    base.name,
                    Figure("waterfall.chance_frac", found.chance_frac, likely(found.chance_frac)),
                    Figure("waterfall.family_error_frac", found.family_error_frac, percent(found.family_error_frac, 0)),
                ),
            ),
        ),
    )


def _change(one: Change) -> Iterator[Figure | TextOnly]:
    yield labelled("component", one.part, "")
    yield Figure("added_frac", one.own_frac, gain(one.own_frac), "adds")
    yield Figure("gain_frac", one.gain_frac, gain(one.gain_frac), "gain")
    yield Figure("area_mm2", one.area_mm2, number(one.area_mm2), "mm2")
    yield Figure("power_w", one.power_w, number(one.power_w), "W")
    words = change_label(one) if one.fits else f"{change_label(one)}; does not fit".removeprefix("; ")
    yield TextOnly("what a change is from and to", words, "from and to", align="l")
    yield Figure("fits", one.fits)
    yield Figure("before", _labels(one.before))
    yield Figure("after", _labels(one.after))


def _labels(knobs: Mapping[str, float]) -> dict[str, float | str]:
    return {name: value_label(name, value) for name, value in knobs.items()}


def change_label(one: Change) -> str:
    """`8 to 16 arrays, 128 to 64 rows`; of plans alone, nothing."""
    return ", ".join(
        f"{_value_text(name, value)} to {_value_text(name, one.after[name])} {_UNITS[name]}".rstrip()
        for name, value in one.before.items()
    )


def _value_text(name: str, value: float) -> str:
    label = value_label(name, value)
    return label if isinstance(label, str) else f"{label:,.6g}"


def waterfall_chart(found: Waterfall, base_name: str) -> Chart:
    """A bar for every change, each from where the one before it ended, and below them what they come to."""
    labels = [*(one.part for one in found.changes), "together"]
    added = [one.own_frac for one in found.changes]
    values = [*added, found.gain_frac]
    words = [gain(one) for one in values]
    colours = [*(BLUE if one > 0 else PALE for one in added), ORANGE]
    details = [*(change_label(one) or "as searched" for one in found.changes), "all of them"]
    figure = ranked(
        labels, values, words, colours, f"gain over {base_name}",
        hover="%{y}, %{customdata}: %{text}", details=details, tickformat="~%",
        starts=[*(one.gain_frac - one.own_frac for one in found.changes), 0.0],
    )  # fmt: skip
    table = Table(
        title="Changes",
        columns=("", "from and to", "adds"),
        rows=tuple(zip(labels, details, words, strict=True)),
        align="llr",
    )
    most = max(range(len(added)), key=lambda place: added[place])
    alt = f"Most comes from {labels[most]}: {words[most]} of {gain(found.gain_frac)}."
    title = f"From {base_name} to the best system, one change at a time"
    return Chart(name="waterfall", title=title, alt=alt, figure=figure, table=table)
