"""What a store holds as a page: all its studies, or one with its best rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.report.charts.study_rows import best_rows
from dovetail.report.page import Page, Section
from dovetail.report.studies import design_record, question_label, study_tables
from dovetail.report.table import Table
from dovetail.search.algorithms import Scored
from dovetail.search.study import StudyRecord


def studies_page(table: Table) -> Page:
    """`table` as `report.studies.studies_table` gives it."""
    return Page(
        title=table.title,
        sentence=f"{len(table.rows):,} studies, each one question put to one version of the model.",
        sections=(Section(title="Studies", tables=(table,)),),
    )


def study_page(study: StudyRecord, best: Sequence[Scored]) -> Page:
    first, *more = study_tables(study, tuple(best))
    rows = [(_brief(study, one), one.loss) for one in best if math.isfinite(one.loss)]
    return Page(
        title=first.title,
        sentence=f"{study.kind}: {question_label(study)}; {study.num_rows:,} rows.",
        sections=(
            Section(title="The study", tables=(first,)),
            Section(title="The best rows", charts=best_rows(rows), tables=tuple(more)),
        ),
    )


def _brief(study: StudyRecord, one: Scored) -> str:
    """The knobs of a row that its study leaves open, in their order."""
    knobs = design_record(study, one)["knobs"]
    told = [f"{name} {value}" for name, value in knobs.items() if len(study.knobs.get(name, "ab")) > 1]
    return ", ".join(told) or "the one design"
