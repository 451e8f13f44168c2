"""What co-design and fronts share: a question over systems, and that no system may be within the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dovetail.api.requests.searches import CodesignRequest, ParetoRequest
from dovetail.files.chip_names import full_name
from dovetail.files.codesign import CodesignOverrides, CodesignSpec, load_codesign
from dovetail.report.nothing_fits import nothing_record
from dovetail.report.plain import Record
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.question import JointQuestion
from dovetail.search.metrics import Metric

EXAMPLE = "gpt2-1.5b"  # what is asked where nothing is said: small enough to see the answer at once
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoSystem:
    """No system of a space is within the limits and holds its models: the question, and why, as data."""

    question: JointQuestion
    why: Record


def no_system(spec: CodesignSpec, question: JointQuestion) -> NoSystem:
    return NoSystem(question=question, why=nothing_record(spec.name, question, spec.limits.assumed))


def loaded(request: CodesignRequest | ParetoRequest) -> CodesignSpec:
    """The spec, or the example where none is given; the base also by the beginning of its name."""
    base = full_name(request.base, "--base") if request.base else ""
    return load_codesign(EXAMPLE if request.spec == "" else request.spec, request.part(CodesignOverrides, base=base))


def question_of(spec: CodesignSpec, metric: Metric) -> JointQuestion:
    return JointQuestion(
        cases=spec.cases,
        base=spec.base,
        network=network_named(spec.network.split(",")[0]),
        space=spec.space,
        budget=spec.budget,
        metric=metric,
        reference_losses=(1.0,) * len(spec.cases),
        rule=spec.rule,
    )


def noted(watch: Callable[[T], None], history: list[T]) -> Callable[[T], None]:
    """A watch that keeps in `history` what a search tells of itself, and passes it on."""

    def note(now: T) -> None:
        history.append(now)
        watch(now)

    return note
