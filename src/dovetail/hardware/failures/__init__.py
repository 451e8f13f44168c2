"""Published counts of failures, one file each: a job of any size on like devices is taken to fail at the same rate."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.hardware.reliability import Failures
from dovetail.registry import Registry

failures: Registry[Callable[[], Failures]] = Registry("count of failures", __name__)
