"""A collective library's fit to a platform's logs: as plain data, as tables, and as a page with its curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.collective_rows import Collectives
from dovetail.accuracy.library_fit import FittedConstant, LibraryFit, identified
from dovetail.comm.events.bounds import bus_share
from dovetail.report.charts.curves import curves_chart
from dovetail.report.curves import Curve, Panel
from dovetail.report.labels import gain, percent
from dovetail.report.page import Card, Page, Section
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_rate, format_s
from dovetail.workload.graph import FloatArray

NUM_WORST = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LibraryReport:
    """A fit with its names: the cluster that is written, the library it began with, and what it was fitted on."""

    fit: LibraryFit
    name: str
    library: str
    platform: str
    fitted_on: str
    written: str
    words: Sequence[tuple[str, str, str]]  # of each constant: its key, and its value before and after
    notes: tuple[str, ...] = ()


def library_fit_record(report: LibraryReport) -> Record:
    fit = report.fit
    return {
        "cluster": report.name,
        "library": report.library,
        "platform": report.platform,
        "fitted_on": report.fitted_on,
        "num_rows": len(fit.rows),
        "before_mape_frac": fit.error_frac(fit.before_s),
        "after_mape_frac": fit.error_frac(fit.after_s),
        **({"cross_validated_mape_frac": fit.error_frac(fit.left_out_s)} if len(fit.left_out_s) else {}),
        "fitted": [
            {
                "figure": key,
                **({"num_ranks": one.num_ranks} if one.num_ranks else {}),
                "before": one.before,
                "after": one.after,
            }
            for one, (key, _, _) in zip(fit.constants, report.words, strict=True)
        ],
        "rows": [
            {
                "collective": fit.rows.operations[row],
                "num_ranks": int(fit.rows.num_ranks[row]),
                "num_nodes": int(fit.rows.num_nodes[row]),
                "size_bytes": float(fit.rows.size_bytes[row]),
                "measured_s": float(fit.rows.measured_s[row]),
                "before_s": float(fit.before_s[row]),
                "after_s": float(fit.after_s[row]),
            }
            for row in range(len(fit.rows))
        ],
        "notes": list(report.notes),
        "written": report.written,
    }


def library_fit_tables(report: LibraryReport) -> tuple[Table, ...]:
    return (_errors(report), _constants(report), _worst(report.fit))


def library_fit_page(report: LibraryReport) -> Page:
    """Time and bus bandwidth over size, measured and predicted, a pair of charts for each collective."""
    fit = report.fit
    after = percent(fit.error_frac(fit.after_s))
    left_out = percent(fit.error_frac(fit.left_out_s)) if len(fit.left_out_s) else "-"
    return Page(
        title=f"Collectives of {report.name}",
        sentence=f"{report.library} fitted on {report.fitted_on}: predictions are off by {after} on the mean, by"
        f" {percent(fit.error_frac(fit.before_s))} before the fit.",
        cards=(
            Card(label="Mean error", value=after, note="on the rows it was fitted to"),
            Card(label="Sizes left out", value=left_out, note="on a fifth of the sizes, fitted to the others"),
            Card(label="Rows", value=f"{len(fit.rows):,}", note=f"{len(identified(fit))} constants moved"),
        ),
        sections=(
            *(
                Section(
                    title=name,
                    sentences=("Solid lines are measured, dashed ones are predicted after the fit.",),
                    charts=tuple(curves_chart(panel, f"{name}-{slug}") for slug, panel in panels),
                )
                for name, panels in _panels(fit)
            ),
            *(Section(title=table.title, tables=(table,)) for table in library_fit_tables(report)),
        ),
    )


def _errors(report: LibraryReport) -> Table:
    fit = report.fit
    rows = [
        ("before", percent(fit.error_frac(fit.before_s)), f"by {report.library}"),
        ("after", percent(fit.error_frac(fit.after_s)), "on the rows it was fitted to"),
    ]
    if len(fit.left_out_s):
        words = "on each fifth of the sizes, fitted to the others"
        rows.append(("cross-validated", percent(fit.error_frac(fit.left_out_s)), words))
    return Table(title=f"mean error over {report.fitted_on}", rows=tuple(rows), align="lrl")


def _constants(report: LibraryReport) -> Table:
    moved = identified(report.fit)
    pairs = list(zip(report.fit.constants, report.words, strict=True))
    rows = tuple((key, before, after, _moved(one)) for one, (key, before, after) in pairs if one in moved)
    unmoved = [key for one, (key, _, _) in pairs if one not in moved]
    notes = [f"- left as they are: {', '.join(unmoved)}"] if unmoved else []
    notes += [f"- {note}" for note in report.notes]
    return Table(
        title=f"constants of {report.name}",
        columns=("constant", "before", "after", ""),
        rows=rows,
        align="lrrr",
        notes=(*notes, f"- written to {report.written}"),
    )


def _moved(one: FittedConstant) -> str:
    return gain(one.after / one.before - 1)


def _worst(fit: LibraryFit) -> Table:
    labels = fit.rows.labels()
    order = np.argsort(-np.abs(np.log(fit.after_s / fit.rows.measured_s)), kind="stable")[:NUM_WORST]
    return Table(
        title="worst rows",
        columns=("error", "measured", "predicted", "row"),
        rows=tuple(
            (
                gain(float(fit.after_s[row] / fit.rows.measured_s[row]) - 1),
                format_s(float(fit.rows.measured_s[row])),
                format_s(float(fit.after_s[row])),
                f"{labels[row]} ({fit.ran[row]})",
            )
            for row in order
        ),
        align="rrrl",
    )


def _panels(fit: LibraryFit) -> list[tuple[str, list[tuple[str, Panel]]]]:
    """Of each collective: its name, and the panels of time and of bus bandwidth."""
    found = []
    for operation in dict.fromkeys(fit.rows.operations):
        of = np.array([one == operation for one in fit.rows.operations])
        rows, after_s = fit.rows.where(of), fit.after_s[of]
        share = np.array([bus_share(operation, int(count)) for count in rows.num_ranks])
        panels = [
            (
                "time",
                Panel(
                    title=f"time of {operation}",
                    x_name="size",
                    y_name="time",
                    x_label=format_bytes,
                    y_words=format_s,
                    curves=_curves(rows, rows.measured_s, after_s),
                    dashed="predicted",
                ),
            ),
            (
                "bandwidth",
                Panel(
                    title=f"bus bandwidth of {operation}",
                    x_name="size",
                    y_name="bus bandwidth",
                    x_label=format_bytes,
                    y_words=lambda rate: format_rate(rate, "B/s"),
                    curves=_curves(rows, share * rows.size_bytes / rows.measured_s, share * rows.size_bytes / after_s),
                    dashed="predicted",
                ),
            ),
        ]
        found.append((operation, panels))
    return found


def _curves(rows: Collectives, measured: FloatArray, predicted: FloatArray) -> tuple[Curve, ...]:
    """A pair of curves for each number of ranks and nodes; several rows of one size are their mean."""
    curves = []
    keys = list(zip(rows.num_ranks.tolist(), rows.num_nodes.tolist(), strict=True))
    for ranks, nodes in sorted(set(keys)):
        of = np.array([key == (ranks, nodes) for key in keys])
        name = f"{ranks} ranks" + (f" on {nodes} nodes" if nodes > 1 else "")
        for values, is_dashed in ((measured, False), (predicted, True)):
            points = tuple(
                (size, float(values[of & (rows.size_bytes == size)].mean()))
                for size in sorted(set(rows.size_bytes[of].tolist()))
            )
            curves.append(Curve(name=name, points=points, is_dashed=is_dashed))
    return tuple(curves)
