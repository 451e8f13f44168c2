"""Knobs of systems as people read them: endpoints by name, and buffers as large as they are."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.template import dataflow_word
from dovetail.search.codesign.networks import network_word
from dovetail.search.codesign.systems import BY_SIZE, core_buffer_bytes
from dovetail.search.space import Space
from dovetail.units import KIBI

Words = dict[str, float | str]
BY_SIZE_WORDS = "by size"


def as_labels(base: Chip, system: Mapping[str, float]) -> Words:
    """Every knob of a system; the core buffer is what a core has, whether it was chosen or not."""
    return {
        **system,
        "core_buffer_kib": float(core_buffer_bytes(base, system)) / KIBI,
        "dataflow": dataflow_word(system["dataflow"]),
        "endpoint": endpoint_coded(system["endpoint"]).name,
        "network": network_word(system["network"]),
    }


def value_label(name: str, value: float) -> float | str:
    """One value that a knob may have."""
    if name == "endpoint":
        return endpoint_coded(value).name
    if name == "network":
        return network_word(value)
    if name == "dataflow":
        return dataflow_word(value)
    return BY_SIZE_WORDS if name == "core_buffer_kib" and value == BY_SIZE else value


def space_labels(space: Space) -> dict[str, list[float | str]]:
    return {knob.name: [value_label(knob.name, value) for value in knob.values] for knob in space.knobs}
