"""Of several models with one system in common: the best system for each of them alone."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.search.codesign.answers import SystemAnswer, answer_of
from dovetail.search.codesign.joint import JointFound, joint_search, local_backend
from dovetail.search.codesign.scoring import Scorer


def by_itself(scorer: Scorer) -> JointFound | None:
    """A search of this process, which remembers nothing."""
    return joint_search(scorer, local_backend(scorer))


def per_model_best(
    scorer: Scorer, search: Callable[[Scorer], JointFound | None] = by_itself
) -> tuple[SystemAnswer, ...]:
    """Each model's, with its plan, within the same space and limits; searched where they have a system in common."""
    found = []
    for index, case in enumerate(scorer.question.cases):
        alone = scorer.alone(index)
        best = search(alone)
        assert best is not None, f"{case.name} fits the system that all have in common"
        found.append(answer_of(alone.question, best.best))
    return tuple(found)
