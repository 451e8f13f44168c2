"""Real and template accelerators, one file each, every figure with its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dovetail.hardware.chip import Chip
from dovetail.registry import Registry, made, named

_Build = TypeVar("_Build", bound=Callable[[], Chip])


def _check(name: str, build: Callable[[], Chip]) -> None:
    named("chip", name, made("chip", Chip, name, build).name)


chips: Registry[Callable[[], Chip]] = Registry("chip", __name__, check=_check)


def device_names(*names: str) -> Callable[[_Build], _Build]:
    """Says what drivers call the chip that the decorated function returns.

    These are the names that nvidia-smi and rocm-smi print and `torch.cuda.get_device_name` returns, as they stand in
    traces of profilers. They are no figures, so they are beside the `Chip` and no answer follows from them.
    """

    def said(build: _Build) -> _Build:
        vars(build)["device_names"] = names
        return build

    return said


def has_device_names(build: Callable[[], Chip]) -> bool:
    """Whether anything is said of what drivers call the chip, be it that there is no name."""
    return "device_names" in vars(build)


def chip_of_device(device: str) -> str:
    """The catalogue's name of a chip that a driver calls `device`; empty where it is not known."""
    return next((name for name, build in chips.items() if device in vars(build).get("device_names", ())), "")
