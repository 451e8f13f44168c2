"""Clusters by the short names people use: h100x512 is the catalogue's dgx-h100 at 512 devices."""

from __future__ import annotations

import re
from dataclasses import replace

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.entry import Entry, is_file_name
from dovetail.files.tree import Node
from dovetail.hardware.clusters import clusters

_SIZED = re.compile(r"(?P<name>.+)x(?P<devices>[1-9][0-9]{0,8})")
_TURNED = re.compile(r"(?P<devices>[1-9][0-9]{0,8}) ?x ?(?P<name>.+)")
_PACKAGING = {"dgx", "nodes", "pod", "nvl72"}  # words of a cluster's name that say how its chips are boxed, not which


def sized_name(entry: Entry, num_devices: int = 0) -> tuple[Entry, int]:
    """`entry` with the catalogue's own name in place of a short one, and the devices it is to have; 0 for as usual.

    A name of the catalogue and a file stay as they are. Otherwise xN at the end is N devices, and what stands before
    it a catalogue name or the short form of one: without the words that say how its chips are boxed.
    """
    name = entry.value
    if not isinstance(name, str) or is_file_name(name) or name in clusters:
        return entry, num_devices
    sized = _SIZED.fullmatch(name.strip())
    turned = _TURNED.fullmatch(name.strip())
    if turned and sized is None and full_cluster_name(turned["name"]) in clusters:
        raise entry.refused(f"no cluster is named {name!r}; write it as {turned['name']}x{turned['devices']}")
    found = full_cluster_name(sized["name"] if sized else name.strip())
    if found not in clusters:
        if sized and not (entry.document.folder / name).is_file():
            known = {*clusters.names(), *map(short_cluster_name, clusters.names())}
            raise entry.refused(f"no cluster is named {sized['name']!r}{did_you_mean(sized['name'], known)}")
        return entry, num_devices  # to be refused by its name, or a file without an ending
    devices = int(sized["devices"]) if sized else 0
    if devices and num_devices not in (0, devices):
        message = f"{name} is {devices:,} devices, and {num_devices:,} are requested"
        raise InvalidInput(f"{message}; give {found} and the number, or the number in the name alone", entry.where)
    return replace(entry, node=Node(found, entry.node.line)), devices or num_devices


def names_cluster(text: str) -> bool:
    """Whether `text` is a catalogue cluster: its name, the short form of it, or either with xN devices."""
    sized = _SIZED.fullmatch(text)
    return full_cluster_name(text) in clusters or (sized is not None and full_cluster_name(sized["name"]) in clusters)


def meant(name: str) -> str:
    """Which cluster of the catalogue a short name without a size is; empty for any other name."""
    found = full_cluster_name(name.strip())
    is_short = name.strip() not in clusters and not is_file_name(name) and found in clusters
    return found if is_short else ""


def unsized_name(name: str) -> str:
    """The catalogue's name of a cluster that is named with its size; anything else as it is."""
    sized = _SIZED.fullmatch(name)
    if name in clusters or is_file_name(name) or sized is None:
        return name
    found = full_cluster_name(sized["name"])
    return found if found in clusters else name


def full_cluster_name(name: str) -> str:
    """The catalogue name that `name` is, or is the short form of; what is neither is left as it is."""
    if name in clusters:
        return name
    return next((known for known in clusters.names() if short_cluster_name(known) == name), name)


def short_cluster_name(name: str) -> str:
    """A catalogue name without the words that say how its chips are boxed: h100 of dgx-h100, tpu-v4 of tpu-v4-pod."""
    return "-".join(word for word in name.split("-") if word not in _PACKAGING)
