"""Every type of layer keeps its contract: it says what is different, is simulated, and launched or named."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.step.step import training_step
from dovetail.workload.layer_types import FIELDS, layer_types, shape_of_layer
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

FIELDS_OF_SHAPE = {field.name for field in dataclasses.fields(Transformer)}
BASE = models["llama3-8b"]()
SHAPES = [shape for _, build in models.items() if isinstance(shape := build().architecture, Transformer)]
CLUSTER, PLAN = clusters["dgx-h100"].build(8), Plan(data_parallel=8)
ROUNDING = 1e-9
every_type = pytest.mark.parametrize("name", layer_types.names())


@cache
def workload(*pattern: str) -> Workload:
    """Llama 3 8B, four layers of it, in a pattern; what a type needs is taken from a model that has it."""
    field = layer_types[pattern[0]]().field
    needs = [need for name in pattern for need in layer_types[name]().needs]
    given: dict[str, Any] = {need: _taken(need) for need in needs}
    given[field] = tuple((name, 1) for name in pattern)
    shape = dataclasses.replace(BASE.architecture, num_layers=4, **given)  # type: ignore[type-var]
    return Workload(model=dataclasses.replace(BASE, architecture=shape), global_batch=8, seq=8192)


def _taken(field: str) -> Any:
    found = [value for shape in SHAPES if (value := getattr(shape, field))]
    assert found, f"a layer type needs {field}, which no model of the catalogue has: add one that has it"
    return found[0]


def others(name: str) -> list[str]:
    return [other for other, made in layer_types.items() if made().field == layer_types[name]().field and other != name]


@every_type
def test_a_type_says_where_it_stands_and_what_a_layer_of_it_has(name: str) -> None:
    made = layer_types[name]()
    assert made.field in FIELDS, f"{name} stands in {made.field!r}; a pattern is one of {', '.join(FIELDS)}"
    unknown = sorted({*made.replaces, *made.needs} - FIELDS_OF_SHAPE)
    assert not unknown, f"{name} names {', '.join(unknown)}, which Transformer has not: add the field there"
    assert layer_types[name].__doc__, f"the function of {name} has no docstring, which the page of types shows"


@every_type
def test_a_type_that_lacks_what_it_needs_is_refused(name: str) -> None:
    made = layer_types[name]()
    for need in made.needs:
        field = next(field for field in dataclasses.fields(Transformer) if field.name == need)
        with pytest.raises(InvalidInput, match=f"{name} needs {need}"):
            dataclasses.replace(
                BASE.architecture,  # type: ignore[type-var]
                **{need: field.default, made.field: ((name, 1),)},
            )


@every_type
def test_a_type_differs_from_the_others_of_its_pattern(name: str) -> None:
    for other in others(name):
        shape: Any = workload(name, other).model.architecture
        first, second = (shape_of_layer(shape, (one,)) for one in (name, other))
        assert first != second, f"layers of {name} are those of {other}: say in `replaces` what is different"


@cache
def step_s(*pattern: str) -> float:
    run = workload(*pattern)
    return float(training_step(run.training_graph(), PLAN, CLUSTER, run.precision).step_s)


@every_type
def test_a_step_of_mixed_layers_takes_between_those_of_either_type(name: str) -> None:
    for other in others(name):
        either = sorted((step_s(name), step_s(other)))
        assert 0 < either[0] * (1 - ROUNDING) <= step_s(name, other) <= either[1] * (1 + ROUNDING)


@every_type
def test_a_launch_for_megatron_lm_says_what_a_type_changes_or_that_it_cannot(name: str) -> None:
    """Arguments for a pattern differ from those without, or one of its types is named as not expressed."""
    for other in others(name):
        mixed, plain = (
            launchers["megatron-lm"](workload(*pattern), CLUSTER, PLAN) for pattern in ((name, other), (other,))
        )
        named = [one.what for one in mixed.missing if name in one.what or other in one.what]
        assert named or mixed.words != plain.words, f"a layer of {name} among {other} is dropped in silence"
