"""What a bar module needs: the `Bar` value, and where the reference data lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
REFERENCE_DATA_VARIABLE = "DOVETAIL_REFERENCE_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One promise with today's measurement beside it. `holds=None` means not tried, and then `note` says why."""

    name: str
    issue: int
    bar: str
    measured: str
    holds: bool | None
    note: str = ""

    def __post_init__(self) -> None:
        assert self.holds is not None or self.note, f"bar {self.name!r} was skipped without saying why"


def reference_data(
    path: str = "", environment: Mapping[str, str] = os.environ, repository: Path = REPOSITORY
) -> Path | None:
    """Where reference data `path` lies, or None where this machine has none.

    The folder named by DOVETAIL_REFERENCE_DATA is asked first, then `shared/data` beside the repository.
    """
    named = environment.get(REFERENCE_DATA_VARIABLE)
    folder = Path(named) if named else repository.parent / "shared" / "data"
    found = folder / path
    return found if found.exists() else None
