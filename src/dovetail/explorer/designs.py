"""A point of a search for chips as one word of an address, and the cluster it stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dovetail.errors import InvalidInput
from dovetail.files.chip import chip_of
from dovetail.files.cluster import MAX_DEVICES
from dovetail.files.uploaded import catalogue_entry
from dovetail.hardware.cluster import Cluster
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.systems import KNOBS, system_chip

MAY_BE_NONE = ("core_buffer_kib",)  # 0: as the size of a core has it
MOST = 1e6  # style: of any knob; the largest in use are some thousands


def design_word(base: str, network: str, system: Mapping[str, float]) -> str:
    """A system of `base` chips changed by its knobs, on a network."""
    return "~".join((base, network, *(f"{system[name]:.10g}" for name in KNOBS)))


def design_cluster(word: str, num_devices: int = 0) -> Cluster:
    """The cluster that `design_word` wrote; of another number of devices where one is given."""
    base, *rest = word.split("~")
    network, values = (rest[0], rest[1:]) if rest else ("", [])
    if len(values) != len(KNOBS):
        raise InvalidInput(f"a design is a chip, a network and {len(KNOBS)} numbers; got {len(values)} numbers")
    system = {name: _number(name, value) for name, value in zip(KNOBS, values, strict=True)}
    devices = num_devices or int(system["num_devices"])
    if not 1 <= devices <= MAX_DEVICES:
        raise InvalidInput(f"a cluster has 1 to {MAX_DEVICES:,} devices; got {devices:,}")
    return network_named(network)(system_chip(chip_of(catalogue_entry(base)), system), devices)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST or (value == 0 and name not in MAY_BE_NONE):
        raise InvalidInput(f"{name} of a design is a number above 0; got {text[:40]!r}")
    return value
