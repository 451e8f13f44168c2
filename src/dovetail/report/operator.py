"""One operator on one chip."""

from __future__ import annotations

from dovetail.accuracy.one_operator import OpAnswer
from dovetail.report.figures import (
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    TextOnly,
    labelled,
    phrase,
)
from dovetail.report.labels import gain, percent
from dovetail.units import format_energy_j, format_rate, format_s

LIMIT_LABELS = {
    "tensor": "tensor units",
    "vector": "vector lanes",
    "sram": "on-chip memory bandwidth",
    "hbm": "HBM bandwidth",
    "latency": "latencies of its kernels",
    "launch": "launching it",
}


def op_figures(answer: OpAnswer) -> Figures:
    """What one operator takes and waits for, and what other models say of it."""
    peak_frac, hbm_frac = answer.flop_per_s / answer.peak_flop_per_s, answer.hbm_bytes_per_s / answer.peak_bytes_per_s
    time = Figure("time_s", answer.time_s, format_s(answer.time_s, 2))
    limit = Figure("limit", answer.limit, limit_label(answer.limit))
    named = (
        labelled("kind", answer.kind),
        labelled("pass", answer.phase),
        labelled("dtype", answer.dtype),
        labelled("chip", answer.chip),
        labelled("what", answer.what),
    )
    return (
        FigureTable(
            title=phrase("{} {} in {} on {}: {}", *named),
            align="lrl",
            rows=(
                FigureRow(("time", time, phrase("waits for {}", limit))),
                FigureRow(
                    (
                        "arithmetic",
                        Figure("flop_per_s", answer.flop_per_s, format_rate(answer.flop_per_s, "FLOP/s")),
                        phrase("{} of peak", Figure("peak_frac", peak_frac, percent(peak_frac))),
                    )
                ),
                FigureRow(
                    (
                        "HBM",
                        Figure("hbm_bytes_per_s", answer.hbm_bytes_per_s, format_rate(answer.hbm_bytes_per_s, "B/s")),
                        phrase("{} of its bandwidth", Figure("hbm_frac", hbm_frac, percent(hbm_frac))),
                    )
                ),
                FigureRow(
                    (
                        "energy",
                        Figure("energy_j", answer.energy_j, format_energy_j(answer.energy_j)),
                        "dynamic, without being on",
                    )
                ),
                FigureRow(
                    (
                        "power",
                        Figure("mean_w", answer.mean_w, f"{answer.mean_w:.0f} W"),
                        phrase("of {} W, idle power included", TextOnly("tdp_w", f"{answer.tdp_w:.0f}")),
                    )
                ),
                FigureRow(
                    (
                        "sustained",
                        Figure("sustained_s", answer.sustained_s, format_s(answer.sustained_s, 2)),
                        phrase(
                            "again and again, clock at {}",
                            Figure("clock_frac", answer.clock_frac, percent(answer.clock_frac, 0)),
                        ),
                    )
                ),
                Figure("flop", answer.flop),
                Figure("peak_flop_per_s", answer.peak_flop_per_s),
                Figure("hbm_bytes", answer.hbm_bytes),
            ),
        ),
        FigureTable(
            title="against other models" if answer.others else "",
            columns=("model", "time", "against ours", "waits for"),
            align="lrrl",
            rows=(
                FigureRow(("this model", time, "", limit)),
                *(
                    FigureRow(
                        (
                            labelled(f"others[{place}].model", one.model),
                            Figure(f"others[{place}].time_s", one.time_s, format_s(one.time_s, 2)),
                            TextOnly("time_s against ours", gain(one.time_s / answer.time_s - 1)),
                            Figure(f"others[{place}].limit", one.limit, limit_label(one.limit)),
                        )
                    )
                    for place, one in enumerate(answer.others)
                ),
            ),
        ),
        FigureList(
            key="others",
            items=answer.others,
            figures=lambda one: (
                Figure("model", one.model),
                Figure("time_s", one.time_s),
                Figure("limit", one.limit),
            ),
        ),
    )


def limit_label(limit: str) -> str:
    return LIMIT_LABELS.get(limit, limit)
