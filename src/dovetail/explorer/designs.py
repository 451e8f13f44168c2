"""A point of a search for chips as one word of an address, and the cluster it stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dovetail.errors import InvalidInput
from dovetail.files.chip import chip_of
from dovetail.files.cluster import MAX_DEVICES
from dovetail.files.uploaded import catalogue_entry
from dovetail.hardware.cluster import Cluster
from dovetail.search.codesign.networks import AS_GIVEN, network_coded, network_named
from dovetail.search.codesign.systems import KNOBS, LEAST, system_chip, system_of

# Before dataflows, registers, vector memory and the SRAM's bandwidth were chosen: words of these are still read.
NEWER = ("dataflow", "register_bytes_per_lane", "vmem_mib", "sram_bytes_per_clock")
NEWEST = ("vmem_bytes_per_clock", "network")  # a network was the same for all systems
OLD_KNOBS = {
    len(names): names
    for names in (
        tuple(name for name in KNOBS if name not in (*NEWER, *NEWEST)),
        tuple(name for name in KNOBS if name not in NEWEST),
    )
}
MOST = 1e6  # style: of any knob; the largest in use are some thousands


def design_word(base: str, network: str, system: Mapping[str, float]) -> str:
    """A system of `base` chips changed by its knobs, on a network."""
    return "~".join((base, network, *(f"{system[name]:.10g}" for name in KNOBS)))


def read_design(word: str) -> tuple[str, str, dict[str, float]]:
    """The base chip, the network and the knobs that `design_word` wrote."""
    base, *rest = word.split("~")
    network, values = (rest[0], rest[1:]) if rest else ("", [])
    names = OLD_KNOBS.get(len(values), KNOBS)
    if len(values) != len(names):
        raise InvalidInput(f"a design is a chip, a network and {len(KNOBS)} numbers; got {len(values)} numbers")
    own = system_of(chip_of(catalogue_entry(base)), 1)
    return base, network, own | {name: _number(name, value) for name, value in zip(names, values, strict=True)}


def design_cluster(word: str, num_devices: int = 0) -> Cluster:
    """The cluster that `design_word` wrote; of another number of devices where one is given."""
    base, network, system = read_design(word)
    devices = num_devices or int(system["num_devices"])
    if not 1 <= devices <= MAX_DEVICES:
        raise InvalidInput(f"a cluster has 1 to {MAX_DEVICES:,} devices; got {devices:,}")
    code = system["network"]
    build = network_named(network) if code == AS_GIVEN else network_coded(code).build
    return build(system_chip(chip_of(catalogue_entry(base)), system), devices)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST or (value == 0 and LEAST.get(name, 1.0) > 0):
        raise InvalidInput(f"{name} of a design is a number above 0; got {text[:40]!r}")
    return value
