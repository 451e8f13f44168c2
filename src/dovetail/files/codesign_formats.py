"""The question of a joint search as a spec that asks the same again, with the options of the command line in it."""

from __future__ import annotations

from typing import Any

from dovetail.errors import NotModelled
from dovetail.files.codesign import CodesignSpec
from dovetail.files.codesign_budget import BASE
from dovetail.files.job_text import named_chip, workload_entries
from dovetail.files.value_formats import Words
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.template import dataflow_word
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.codesign.system_labels import DERIVED
from dovetail.search.codesign.systems import system_of
from dovetail.search.space import Knob


def codesign_entries(spec: CodesignSpec) -> Words:
    """A mapping for `load_codesign`: models in full, every knob that is turned or given, limits, and plans as given.

    Empty where a program gave a model of its own that no spec has words for.
    """
    try:
        workloads = [workload_entries(case.workload) for case in spec.cases]
    except NotModelled:
        return {}
    more = {"space": spec.plan_words} if spec.plan_words else {}
    budget = spec.limits.words()
    return {
        **({"name": spec.name} if spec.name else {}),
        "models": workloads,
        "weights": [case.weight for case in spec.cases],
        "preset": spec.preset,
        "chip": {"base": named_chip(spec.base), **_knobs(spec)},
        "devices": list(spec.num_devices),
        "network": spec.network if "," not in spec.network else spec.network.split(","),
        **({"budget": budget} if budget else {}),
        **more,
    }


def _knobs(spec: CodesignSpec) -> dict[str, list[Any]]:
    """Those that the preset or the user sets; others are as the base has them."""
    own, preset = system_of(spec.base, spec.num_devices[0]), PRESETS[spec.preset].values
    given = [knob for knob in spec.space.knobs if knob.name in preset or tuple(knob.values) != (own[knob.name],)]
    return {knob.name: _values(knob) for knob in given if knob.name not in ("num_devices", "network")}


def _values(knob: Knob) -> list[Any]:
    if knob.name == "endpoint":
        return [endpoint_coded(value).name for value in knob.values]
    if knob.name == "dataflow":
        return [dataflow_word(value) for value in knob.values]
    derived = DERIVED[knob.name][0] if knob.name in DERIVED else None
    # what follows from other knobs, and numbers that are not whole, are the base's
    return [int(value) if value == int(value) and value != derived else BASE for value in knob.values]
