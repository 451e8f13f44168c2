"""A question again from the facts a study keeps of it, and the front of what was scored of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoint_named
from dovetail.hardware.template import dataflow_codes
from dovetail.parallel.plan import Overlap
from dovetail.search.codesign.dominance import Ranked, front_of, sorted_rows
from dovetail.search.codesign.joint import SearchCounts
from dovetail.search.codesign.networks import network_code, network_named
from dovetail.search.codesign.pareto import ENERGY, TAKEN, FrontSystem, ParetoFound, front_systems
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.codesign.question import Budget, Case, JointQuestion, system_space
from dovetail.search.codesign.rows import question_facts
from dovetail.search.codesign.scoring import SystemScore
from dovetail.search.codesign.system_labels import DERIVED
from dovetail.search.metrics import metrics
from dovetail.search.planners.constraints import EVEN, STAGES
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.space import Space
from dovetail.stable_names import stable_type
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


def question_again(facts: Mapping[str, Any]) -> JointQuestion:
    """The question that `question_facts` wrote; raises where it cannot be put again: a model or chip of a file."""
    for kind, registry, names in (
        ("model", models, [str(case["name"]) for case in facts["cases"]]),
        ("chip", chips, [str(facts["base"]["name"])]),
    ):
        for name in names:
            if name not in registry:
                message = f"{name} is a {kind} of a file, and a store keeps no files"
                raise InvalidInput(f"{message}; run it again with its spec")
    rule, base = str(facts["rule"]), chips[str(facts["base"]["name"])]()
    question = JointQuestion(
        cases=tuple(_case(case) for case in facts["cases"]),
        base=base,
        network=network_named(str(facts["network"]).split(",")[0]),
        space=_space(base, facts["space"]),
        budget=Budget(**stable_type(Budget).python_names(facts["budget"])),
        metric=metrics[str(facts["metric"])],
        reference_losses=tuple(facts["reference_losses"]),
        rule=PRESETS[rule].rule,
    )
    again = question_facts(question, metric=str(facts["metric"]), network=str(facts["network"]), rule=rule)
    if any(facts.get(name) != value for name, value in again.items()):
        raise InvalidInput("this study is of a model or chip that the catalogue has otherwise; run it again")
    return question


def _space(base: Chip, written: Mapping[str, Sequence[float | str]]) -> Space:
    values = {name: [_value(name, value) for value in values_of_knob] for name, values_of_knob in written.items()}
    return system_space(base, int(values["num_devices"][0]), values)


def _value(name: str, written: float | str) -> float:
    """The other way round than `system_words.value_label`."""
    if name == "endpoint":
        return float(endpoint_named(str(written)).code)
    if name == "network":
        return float(network_code(str(written)))
    if name == "dataflow":
        return float(dataflow_codes()[str(written)])
    derived, word = DERIVED.get(name, (0.0, ""))
    return derived if written == word else float(written)


def _case(facts: Mapping[str, Any]) -> Case:
    model = models[str(facts["name"])]()
    workload = Workload(model=model, global_batch=int(facts["batch"]), seq=int(facts["seq"]))
    return Case(
        workload=workload,
        plans=_plans(facts["plans"]),
        weight=float(facts["weight"]),
        is_even_only=facts.get(STAGES) == EVEN,
    )


def _plans(written: Mapping[str, Any]) -> PlanSpace:
    """The space of plans that `question_facts` wrote; a field added since is as by default."""
    values: dict[str, Any] = {}
    for name, value in written.items():
        if name == "overlap":
            values[name] = tuple(Overlap(**stable_type(Overlap).python_names(each)) for each in value)
        else:
            values[name] = tuple(tuple(each) if isinstance(each, list) else each for each in value)
    return PlanSpace(**stable_type(PlanSpace).python_names(values))


def front_of_scores(question: JointQuestion, scores: Sequence[SystemScore], axes: tuple[str, ...]) -> ParetoFound:
    """Those of the systems that were scored that no other of them beats: of all, where the search was whole."""
    known = [score for score in scores if math.isfinite(score.loss)]
    energy_j = (
        question.mean(np.array([[case.energy_j for case in one.cases] for one in known]).T) if known else np.zeros(0)
    )
    systems = front_systems(question, known, energy_j)
    on_front: tuple[FrontSystem, ...] = ()
    if systems:
        figures = np.array([[_on(axis, one) for one in systems] for axis in axes], dtype=np.float32)
        ranked = Ranked(number=np.arange(len(systems)), figures=figures)
        ranked = ranked.at(sorted_rows(ranked))
        on_front = tuple(systems[number] for number in ranked.at(front_of(ranked)).number.tolist())
    census = SearchCounts(num_systems=len(scores), num_out_of_memory=len(scores) - len(known), num_scored=len(known))
    return ParetoFound(axes=axes, systems=on_front, census=census, energy_bound_frac=0.0)


def _on(axis: str, one: FrontSystem) -> float:
    if axis == ENERGY:
        return one.energy_j
    if axis not in TAKEN:
        return one.score.loss
    return {"area": one.area_mm2, "power": one.power_w, "cost": one.price_usd}[axis]
