"""What `make accuracy` prints and the rows that it compares, which take half a minute: once for a run of tests."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from dovetail.accuracy.compared import Compared
from dovetail.accuracy.prepared import Prepared
from dovetail.accuracy.validation import Validation, validation
from dovetail.api import validated
from dovetail.cli import main
from dovetail.files.measurements import REFERENCE_DATA_VARIABLE, SHIPPED
from tests.once import computed_once

ROOT = Path(__file__).resolve().parent.parent
RESULTS = [str(ROOT / "benchmarks" / "results" / f"{name}.json") for name in ("published", "published-gemm")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedSet:
    """A table that ships, as the command compared it."""

    name: str
    promise: str
    rows: tuple[Compared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedAccuracy:
    """How the command ended, what it printed, and every set that it scored."""

    code: int
    stdout: str
    stderr: str
    sets: tuple[ShippedSet, ...]


@cache
def shipped_accuracy() -> ShippedAccuracy:
    return computed_once("accuracy", _validated)


def _validated() -> ShippedAccuracy:
    """The whole command, with an eye on the sets that it scores."""
    sets: list[ShippedSet] = []

    def seen(prepared: Sequence[Prepared], *others: Any) -> Validation:
        found = validation(prepared, *others)
        pairs = zip(prepared, found.sets, strict=True)
        sets.extend(ShippedSet(name=one.name, promise=one.promise, rows=of_one.rows) for one, of_one in pairs)
        return found

    with (
        mock.patch.dict(os.environ, {REFERENCE_DATA_VARIABLE: ""}),
        mock.patch.object(validated, "validation", seen),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        code = main(["validate", *SHIPPED, *RESULTS, "--markdown"])
    return ShippedAccuracy(code=code, stdout=out.getvalue(), stderr=err.getvalue(), sets=tuple(sets))
