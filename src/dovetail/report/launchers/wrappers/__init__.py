"""What starts a launch on every host of a cluster, one file each: a batch job around its script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dovetail.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedJob:
    """A launch to be wrapped: its script as a shell reads it, and the hosts that it runs on."""

    name: str
    script: str
    num_hosts: int
    devices_per_host: int
    comments: tuple[str, ...] = ()


Wrapper: TypeAlias = Callable[[WrappedJob], str]

wrappers: Registry[Wrapper] = Registry("wrapper", __name__)
