"""The same question at many points, a row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from dovetail.api.compared import Comparison, Context, Through, refused_or
from dovetail.api.jobs import JobRequest
from dovetail.api.requests.comparisons import SweepRequest
from dovetail.api.requests.jobs import SimulateRequest
from dovetail.api.simulated import Question
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.cluster_names import unsized_name
from dovetail.files.spec_changes import Change, change_of, options_of
from dovetail.files.sweep_axes import SweepAxis, axes_of, check_rows
from dovetail.report.compared import ComparedJob, Refused
from dovetail.report.goodput import NO_BUDGET


def swept(request: SweepRequest, *, context: Context, through: Through = iter) -> Comparison:
    """A row for every combination of the axes' values; raises where none of them can be read."""
    axes = axes_of(request.over) if not isinstance(request.over, dict) else _of_mapping(request.over)
    if not axes:
        raise InvalidInput("--over is missing; name a key of a spec and its values, as in --over plan.tp=1,2,4")
    shared = request.part(JobRequest)
    _check_once(axes, shared)
    points = list(product(*(axis.values for axis in axes)))
    questions = [
        Question(
            job=lambda point=point: _at(shared, axes, point),  # type: ignore[misc]  # read where an error is the row's own
            num_tokens=request.tokens,
            device_usd_per_s=request.price,
            is_forward_only=request.forward_only,
        )
        for point in points
    ]
    results = [refused_or(question, context) for question in through(questions)]
    if all(isinstance(result, DovetailError) for result in results):
        raise results[0]
    jobs = []
    for point, result in zip(points, results, strict=True):
        settings = tuple((axis.key, _shown(value)) for axis, value in zip(axes, point, strict=True))
        if isinstance(result, DovetailError):
            jobs.append(ComparedJob(settings=settings, result=Refused(message=str(result)), budget=NO_BUDGET))
        else:
            own = {"budget": result.budget, "selection": result.selection}
            jobs.append(ComparedJob(settings=settings, result=result.outcome, **own))
    keys = tuple(axis.key for axis in axes)
    return Comparison(jobs=tuple(jobs), title=f"{' x '.join(keys)}: {len(jobs)} rows", call=request.call, axes=keys)


def _of_mapping(over: dict[str, Any]) -> tuple[SweepAxis, ...]:
    axes = tuple(SweepAxis(key=key, values=tuple(values)) for key, values in over.items())
    for axis in axes:
        change_of(axis.key, None)
        if not axis.values:
            raise InvalidInput(f"{axis.key} has no values to vary over", "--over")
    check_rows(axes)
    return axes


def _at(shared: JobRequest, axes: tuple[SweepAxis, ...], point: tuple[Any, ...]) -> JobRequest:
    """The job at one point: options by their names, and every other key by its path."""
    changes: tuple[Change, ...] = tuple(change_of(axis.key, value) for axis, value in zip(axes, point, strict=True))
    kinds = {parameter.name: parameter for parameter in SimulateRequest.parameters}
    options = {name: kinds[name].check(_checked(name, value)) for name, value in options_of(changes).items()}
    if "devices" in options and "cluster" not in options and isinstance(shared.cluster, str):
        options["cluster"] = unsized_name(shared.cluster)  # its size is what is varied
    others = tuple(one for one in changes if one.section != "option")
    return replace(shared, **options, changes=others)


def _checked(name: str, value: Any) -> Any:
    """Shares and times of a program are numbers, of text what their kind reads."""
    return str(value) if name == "compute" else value


def _check_once(axes: tuple[SweepAxis, ...], shared: JobRequest) -> None:
    unset = JobRequest()
    for axis in axes:
        change = change_of(axis.key, None)
        if change.section == "option" and getattr(shared, change.path) != getattr(unset, change.path):
            raise InvalidInput(f"{change.path} is both varied and fixed; give it once", "--over")


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return ",".join(f"{key}={each}" for key, each in value.items())
    name = getattr(value, "name", "")
    return name if isinstance(name, str) and name else str(value)
