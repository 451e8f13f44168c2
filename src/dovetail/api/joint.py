"""What co-design and fronts share: a question over systems, and that no system may be within the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dovetail.api.arguments import counted
from dovetail.files.chip_names import full_name
from dovetail.files.codesign import CodesignSaid, CodesignSpec, load_codesign
from dovetail.files.given import SpecGiven
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


def said_of(said: Mapping[str, Any]) -> CodesignSaid:
    """What the arguments of every joint search say in place of a spec, with counts read."""
    words: dict[str, Any] = {name: said[name] for name in ("preset", "base", "network", "endpoint", "area", "power")}
    words |= {name: counted(name, said[name]) for name in ("devices", "batch", "seq")}
    return CodesignSaid(**words)


def loaded(spec: SpecGiven, said: CodesignSaid) -> CodesignSpec:
    """The spec, or the example where none is given; the base also by the beginning of its name."""
    said = replace(said, base=full_name(said.base, "--base")) if said.base else said
    return load_codesign(EXAMPLE if spec == "" else spec, said)


def question_of(spec: CodesignSpec, metric: Metric) -> JointQuestion:
    return JointQuestion(
        cases=spec.cases,
        base=spec.base,
        network=network_named(spec.network),
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
