"""One operator on one chip as a page: its place under the roofs, and what other models say."""

from __future__ import annotations

from dovetail.accuracy.one_operator import OpAnswer
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.estimates import estimates
from dovetail.report.charts.roofline import Dot, Roofs, family_of, roofline
from dovetail.report.figures import tables_of
from dovetail.report.labels import percent
from dovetail.report.operator import limit_label, op_figures
from dovetail.report.page import Card, Page, Section
from dovetail.units import format_rate, format_s


def op_page(answer: OpAnswer) -> Page:
    head, *more = tables_of(op_figures(answer))
    return Page(
        title=head.title,
        sentence=f"It takes {format_s(answer.time_s, 2)} at {format_rate(answer.flop_per_s, 'FLOP/s')},"
        f" {percent(answer.flop_per_s / answer.peak_flop_per_s)} of peak, and waits for {limit_label(answer.limit)}.",
        cards=(
            Card(label="Time", value=format_s(answer.time_s, 2), note=f"waits for {limit_label(answer.limit)}"),
            Card(
                label="Arithmetic",
                value=format_rate(answer.flop_per_s, "FLOP/s"),
                note=f"{percent(answer.flop_per_s / answer.peak_flop_per_s)} of peak",
            ),
            Card(
                label="HBM",
                value=format_rate(answer.hbm_bytes_per_s, "B/s"),
                note=f"{percent(answer.hbm_bytes_per_s / answer.peak_bytes_per_s)} of its bandwidth",
            ),
        ),
        asked=(("Operator", f"{answer.kind}, {answer.phase}: {answer.what}"), ("Chip", answer.chip)),
        sections=(
            *((Section(title="Under the roofs of the chip", charts=_roof(answer)),) if _roof(answer) else ()),
            *((Section(title="Against other models", charts=estimates(answer), tables=tuple(more)),) if more else ()),
            Section(title="Every figure", tables=(head,), is_folded=bool(_roof(answer))),
        ),
    )


def _roof(answer: OpAnswer) -> tuple[Chart, ...]:
    """None of an operator that computes nothing or stays on the chip, which has no place on such axes."""
    if answer.flop <= 0 or answer.hbm_bytes <= 0:
        return ()
    dot = Dot(
        name=f"{answer.kind} {answer.phase}: {answer.what}",
        family=family_of(answer.kind, answer.phase),
        flop=answer.flop,
        hbm_bytes=answer.hbm_bytes,
        run_s=answer.time_s,
        total_s=answer.time_s,
        limit=answer.limit,
    )
    peak = (f"its units, {answer.dtype}", answer.peak_flop_per_s)
    return (roofline(Roofs(chip=answer.chip, hbm_bytes_per_s=answer.peak_bytes_per_s, peaks=(peak,)), [dot]),)
