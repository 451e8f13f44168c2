"""What a worker does of a joint search: its scorer is made once for the question it holds."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.search.codesign.dominance import Figures
from dovetail.search.codesign.pareto import Span, bounded
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.codesign.refining import RefinedSystem, refined_system
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.space import Point
from dovetail.workload.graph import IntArray

_held: list[Scorer] = []  # of the last question


def scorer_of(question: JointQuestion) -> Scorer:
    """The scorer of a question; the same one until the question changes."""
    if not _held or _held[0].question is not question:
        _held[:] = [Scorer(question)]
    return _held[0]


def hold(scorer: Scorer) -> None:
    """Keeps a scorer, with what is worked out in it, as that of its question."""
    _held[:] = [scorer]


def score_task(question: JointQuestion, task: tuple[Sequence[Point], float]) -> list[SystemScore]:
    return scorer_of(question).score(*task)


def refine_task(question: JointQuestion, task: tuple[SystemScore, float]) -> RefinedSystem:
    return refined_system(scorer_of(question), *task)


def bound_task(question: JointQuestion, task: tuple[Span, tuple[str, ...]]) -> tuple[Figures, IntArray]:
    return bounded(scorer_of(question), *task)
