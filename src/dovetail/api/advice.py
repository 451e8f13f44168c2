"""Changes of a plan in the form in which it was given: options of the command, or keys of a spec."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dovetail.api.jobs import AUTO, JobRequest, decisions_of
from dovetail.api.requests.jobs import SimulateRequest
from dovetail.files.inline_plan import OPTIONS, SHORT_NAMES, inline_plan, is_inline
from dovetail.parallel.levers import Lever
from dovetail.parallel.plan import Plan
from dovetail.report.levers import IN_SPEC, Advice

OPTION_OF = {field: option for option, field in OPTIONS.items()}
SHORT = {field: name for name, field in SHORT_NAMES.items()} | {"zero_stage": "zero", "interleave": "vpp"}
REGROUPING = {"tensor_parallel", "context_parallel", "pipeline_parallel"}  # data parallelism fills the cluster again


def advice_for(request: SimulateRequest, plan: Plan) -> Advice:
    """The form for changes of `plan`, which is the request's own."""
    if request.launch_text or request.plan == AUTO:
        return Advice(note="")
    if request.spec and not request.plan and not decisions_of(request.part(JobRequest)):
        return IN_SPEC
    if not request.is_expressible():
        return Advice(note="")

    def repaired(lever: Lever) -> SimulateRequest:
        return _repaired(request, plan, lever.plan)

    def words(lever: Lever) -> str:
        found = repaired(lever)
        same = tuple(name for name, value in found.values.items() if value == request.values[name])
        return found.words(SimulateRequest, but=same)

    return Advice(
        key="options",
        words=words,
        label="options",
        note="add these options to the command; they replace those of the same name",
        command=lambda lever: f"dovetail simulate {repaired(lever).words(SimulateRequest)}",
    )


def _repaired(request: SimulateRequest, plan: Plan, changed: Plan) -> SimulateRequest:
    """The request that is for `changed` in place of `plan`: by options, or in --plan where that writes one out."""
    written = inline_plan(request.plan) if request.plan and is_inline(request.plan) else {}
    values = {one.name: getattr(changed, one.name) for one in fields(Plan)}
    differs = {name: value for name, value in values.items() if value != getattr(plan, name)}
    is_filled = not request.dp and "data_parallel" not in written
    if is_filled and differs.keys() & REGROUPING:
        differs.pop("data_parallel", None)
    options = {
        OPTION_OF[name]: value if isinstance(value, bool) else _typed(value)
        for name, value in differs.items()
        if name in OPTION_OF and not written
    }
    inside = {name: value for name, value in differs.items() if OPTION_OF.get(name) not in options}
    if inside:
        base = [written["base"]] if "base" in written else [request.plan] if request.plan and not written else []
        own = {name: value for name, value in written.items() if name != "base"} | inside
        words = (f"{SHORT.get(name, name)}={_typed(value)}" for name, value in own.items())
        options["plan"] = ",".join((*base, *words))
    return request.changed(**options)


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
