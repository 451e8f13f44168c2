"""A cluster whose chips have measured times: from a spec's `profile`, an option, or a program's argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import Entry, described, placed
from dovetail.files.schema import Shape, Text, checked
from dovetail.hardware.catalog import chip_of_device
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, chip_names, pools_of
from dovetail.hardware.measured import Profile

ProfileLike = str | PathLike[str] | Mapping[str, Any]  # a trace, or {file: a trace, chip: a name}


class _ProfileShape(Shape):
    file: Text
    chip: Text = ""


def profiled_cluster(cluster: AnyCluster, entry: Entry) -> AnyCluster:
    """`cluster` with the times of the profile that `entry` names; raises where it is of a chip that is not there."""
    from dovetail.files.profiles.profile import (
        load_profile,  # readers of three kinds of traces, which few commands need
    )

    file, chip = _named(entry)
    try:
        profile = load_profile(entry.document.folder / file)
    except DovetailError as error:
        raise type(error)(error.message, ": ".join(place for place in (entry.where, error.where) if place)) from None
    with placed(entry):
        return with_profile(cluster, profile, chip)


def _named(entry: Entry) -> tuple[str, str]:
    if entry.document.is_closed:
        raise entry.refused("a profile is a file, and here no other file is opened; leave it out")
    if isinstance(entry.value, str):
        return entry.value, ""
    if not isinstance(entry.value, dict):
        raise entry.refused(f"profile must be a trace's file, or its file and chip; got {described(entry.value)}")
    shape = checked(entry, _ProfileShape)
    return shape.file, shape.chip


def with_profile(cluster: AnyCluster, profile: Profile, chip: str = "") -> AnyCluster:
    """`cluster` with the times of `profile` on every device of the chip it was taken on.

    `chip` says which that is, where the trace does not or calls it by another name.
    """
    named = chip or chip_of_device(profile.device)
    if not named:
        message = (
            f"it is of {profile.device!r}, which the catalogue has not" if profile.device else "it names no device"
        )
        way_out = f"set profile: {{file: {profile.source}, chip: NAME}} in the spec"
        raise InvalidInput(f"the profile does not state which chip it is of: {message}; {way_out}")
    if named not in [pool.chip.name for pool in pools_of(cluster)]:
        rule = f"the profile is of {named}, and the cluster has {chip_names(cluster)}"
        raise InvalidInput(f"{rule}; times of one chip say nothing of another")
    pools = tuple(_measured(pool, profile) if pool.chip.name == named else pool for pool in pools_of(cluster))
    return replace(cluster, pools=pools) if isinstance(cluster, HeterogeneousCluster) else pools[0]


def _measured(pool: Cluster, profile: Profile) -> Cluster:
    from dovetail.accuracy.profiled import measured_on

    return replace(pool, chip=replace(pool.chip, measured=measured_on(profile, pool.chip)))
