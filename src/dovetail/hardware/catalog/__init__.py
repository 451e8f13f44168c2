"""Real and template accelerators, one YAML file each in the format of a user's chip, every figure with its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dovetail.hardware.chip import Chip
from dovetail.registry import Registry, made, named

_Build = TypeVar("_Build", bound=Callable[[], Chip])


def _check(name: str, build: Callable[[], Chip]) -> None:
    named("chip", name, made("chip", Chip, name, build).name)


chips: Registry[Callable[[], Chip]] = Registry("chip", __name__, check=_check, filed_by="dovetail.files.catalogue")


def device_names(*names: str) -> Callable[[_Build], _Build]:
    """Says what drivers call the chip that the decorated function of a plugin returns.

    These are the names that nvidia-smi and rocm-smi print and `torch.cuda.get_device_name` returns, as they stand in
    traces of profilers. They are no figures, so they are beside the `Chip` and no answer follows from them. A file of
    the catalogue has them under the key `device_names`.
    """

    def named_build(build: _Build) -> _Build:
        vars(build)["device_names"] = names
        return build

    return named_build


def device_names_of(build: Callable[[], Chip]) -> tuple[str, ...] | None:
    """What drivers call the chip; none where not given, empty where they show no such device."""
    return getattr(build, "device_names", None)


def chip_of_device(device: str) -> str:
    """The catalogue's name of a chip that a driver calls `device`; empty where it is not known."""
    return next((name for name, build in chips.items() if device in (device_names_of(build) or ())), "")
