"""Profiles beside predictions: from the traces that were named to what each comes to."""

from __future__ import annotations

from pathlib import Path

from dovetail.accuracy.prepared import Prepared
from dovetail.accuracy.profiled import Profiled, prepared, profiled
from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.profiles.profile import load_profile
from dovetail.hardware.catalog import chip_of_device
from dovetail.hardware.chip import Chip
from dovetail.hardware.measured import Profile


def profile_compared(file: str, chip: Chip | None, read: Profile | None = None) -> tuple[Profiled, Prepared]:
    """A trace on the chip that was given, or else on the one that it names; as itself, and as a set to be scored.

    `read` is the profile in the file, where it has been read before.
    """
    profile = read if read is not None else load_profile(Path(file))
    on = chip if chip is not None else _named_chip(profile, file)
    found = profiled(profile, on)
    if not found.rows:
        why = "; ".join(f"{one.name}: {one.why}" for one in found.left_out[:3]) or "it has collectives alone"
        raise InvalidInput(f"no operator of the trace can be compared; {why}", file)
    return found, prepared(found, on)


def other_chip(found: Profiled) -> tuple[str, ...]:
    """A note where a trace names one chip and is compared with another."""
    named = chip_of_device(found.profile.device)
    if named in ("", found.chip):
        return ()
    return (f"{found.profile.source} is of {named}, and is compared with what {found.chip} would take, as requested",)


def _named_chip(profile: Profile, file: str) -> Chip:
    named = chip_of_device(profile.device)
    if not named:
        message = f"the trace is of {profile.device!r}, which is not in the catalogue"
        raise InvalidInput(
            f"{message if profile.device else 'the trace does not name its chip'}; pass --chip NAME", file
        )
    return load_chip(named)
