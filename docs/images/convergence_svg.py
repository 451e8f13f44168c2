"""Prints docs/images/convergence.svg: how far above the best design searches are, from benchmarks/results.

Run as `PYTHONPATH=src:. python docs/images/convergence_svg.py > docs/images/convergence.svg`.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.convergence import FEW
from benchmarks.convergence_table import Results, names_in, recorded
from dovetail.report.curves import Curve, Panel, curves_svg

LOW_FRAC, HIGH_FRAC = 0.1, 0.9  # of seeds below and above the band
LEAST_PERCENT, MOST_PERCENT = 1.0, 1000.0  # drawn at the edge beyond these
TITLE = "best design so far over the proven best"


def svg(results: Results) -> str:
    names = names_in(results)
    panels = [_panel(model, results["models"][model]["searches"], results["grid"], names) for model in FEW]
    return curves_svg(TITLE, panels)


def _panel(model: str, searches: Results, grid: list[int], names: list[str]) -> Panel:
    return Panel(
        title=model,
        x_name="designs evaluated",
        y_name="above the proven best",
        x_label=lambda count: f"{count:,.0f}",
        y_words=lambda percent: f"{percent:,.0f} %",
        curves=tuple(_curve(name, searches[name], grid) for name in names if name in searches),
    )


def _curve(name: str, runs: list[Results], grid: list[int]) -> Curve:
    """The median over seeds and the band that most of them lie in; a search that has found nothing is at the top."""
    ratios = np.array([[np.inf if ratio is None else ratio for ratio in run["curve"]] for run in runs])
    percent = np.clip(100 * (ratios - 1), LEAST_PERCENT, MOST_PERCENT)
    low, middle, high = np.quantile(percent, (LOW_FRAC, 0.5, HIGH_FRAC), axis=0)
    return Curve(
        name=name,
        points=tuple(zip(grid, middle.tolist(), strict=True)),
        band=tuple(zip(grid, low.tolist(), high.tolist(), strict=True)) if len(runs) > 1 else (),
    )


if __name__ == "__main__":
    sys.stdout.write(svg(recorded()))
