"""Knobs of systems as people read them: endpoints by name, buffers as large and vector memory as fast as they are."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.template import dataflow_word
from dovetail.search.codesign.networks import network_word
from dovetail.search.codesign.systems import (
    BY_LANES,
    BY_SIZE,
    core_buffer_bytes,
    system_columns,
    vector_memory_bytes_per_clock,
)
from dovetail.search.space import Space
from dovetail.units import KIBI

Words = dict[str, float | str]
BY_SIZE_WORDS, BY_LANES_WORDS = "by size", "by lanes"
# Knobs that may follow from others: the value that says so, and its word.
DERIVED = {"core_buffer_kib": (BY_SIZE, BY_SIZE_WORDS), "vmem_bytes_per_clock": (BY_LANES, BY_LANES_WORDS)}


def as_labels(base: Chip, system: Mapping[str, float]) -> Words:
    """Every knob of a system; core buffer and bandwidth of vector memory are what it has, chosen or not."""
    fed = vector_memory_bytes_per_clock(base, system_columns(system))
    return {
        **system,
        "vmem_bytes_per_clock": float(fed[0]),
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
    derived, word = DERIVED.get(name, (None, ""))
    return word if value == derived else value


def space_labels(space: Space) -> dict[str, list[float | str]]:
    return {knob.name: [value_label(knob.name, value) for value in knob.values] for knob in space.knobs}
