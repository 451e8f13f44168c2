"""Studies of the store that the explorer was started with: which there are, and the front of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.explorer.fronts import Front, front_of_report
from dovetail.report.fronts import FrontReport
from dovetail.report.studies import question_label, study_tables
from dovetail.report.table import Table
from dovetail.search.codesign.kept import front_of_scores, question_again
from dovetail.search.codesign.pareto import checked_axes, metric_of
from dovetail.search.codesign.rows import score_of
from dovetail.search.codesign.scoring import SystemScore
from dovetail.search.codesign.tasks import scorer_of
from dovetail.search.study import StudyRecord
from dovetail.store import reading

WITH_FRONTS = ("pareto", "codesign")  # kinds of studies whose rows are systems with their even plans
NUM_BEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A study as a list shows it."""

    key: str
    said: str
    num_rows: int
    is_current: bool
    has_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A study: its best rows as tables, and its front where there is one; else why there is none."""

    tables: tuple[Table, ...]
    front: Front | None = None
    why: str = ""


def studies_of(store: str) -> tuple[Listed, ...]:
    """All studies of a store, the last first."""
    with reading(Path(store)) as link:
        return tuple(_listed(one) for one in reversed(link.studies()))


def _listed(study: StudyRecord) -> Listed:
    return Listed(
        key=study.key,
        said=f"{study.kind}: {question_label(study)}; {study.num_rows:,} rows, {study.written[:10]}",
        num_rows=study.num_rows,
        is_current=study.is_current,
        has_front=study.kind in WITH_FRONTS,
    )


def study_opened(store: str, key: str, axes: tuple[str, ...]) -> Opened:
    """The study of this key; only what was scored of it is looked at, nothing is searched."""
    with reading(Path(store)) as link:
        study = link.named(key)
        own = link.at(study.key)
        tables = study_tables(study, own.best(NUM_BEST))
        if study.kind not in WITH_FRONTS:
            return Opened(tables=tables, why="a front is shown of studies of `dovetail codesign` and `dovetail pareto`")
        if not study.is_current:
            return Opened(
                tables=tables, why="this study is of another version of the model, whose plans are numbered otherwise"
            )
        scores = [score_of(row) for row in own.rows()]
    try:
        return Opened(tables=tables, front=_front(study, scores, axes))
    except InvalidInput as error:
        return Opened(tables=tables, why=error.message)


def _front(study: StudyRecord, scores: list[SystemScore], axes: tuple[str, ...]) -> Front:
    question = question_again(study.inputs)
    metric = str(study.inputs["metric"])
    wanted = checked_axes([metric if name == metric_of(axes) else name for name in axes])
    found = front_of_scores(question, scores, wanted)
    if not found.systems:
        raise InvalidInput("no system of this study fits yet; go on with its search")
    report = FrontReport(
        name="",
        question=question,
        metric_name=metric,
        network=str(study.inputs["network"]),
        preset=str(study.inputs["rule"]),
        found=found,
        plan_of=scorer_of(question).even_plan,
        num_shown=NUM_BEST,
        is_base_fit=set(question.reference_losses) != {1.0},
    )
    front = front_of_report(report)
    said = (
        f"of the {len(scores):,} systems of this study that were scored; {study.num_points:,} points are in its space"
    )
    return Front(
        title=front.title,
        said=(said, *front.said[1:]),
        axes=front.axes,
        is_more_better=front.is_more_better,
        points=front.points,
        knobs=front.knobs,
    )
