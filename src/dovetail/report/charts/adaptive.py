"""One drawing for light and dark: it follows what the reader's screen prefers."""

from __future__ import annotations

from dovetail.report.charts.chart import WIDE_PX, Chart
from dovetail.report.charts.svg import style_of
from dovetail.report.charts.themes import INKS


def adaptive_svg(chart: Chart, width_px: float = WIDE_PX) -> str:
    """`chart` as SVG in light colours, and in dark ones where those are preferred."""
    drawn = chart.to_svg("light", width_px)
    dark = f"@media (prefers-color-scheme:dark){{{style_of(INKS['dark'], '.dv-light')}}}"
    return drawn.replace("</style>", f"{dark}</style>", 1)
