"""What SQLite says of a file, in one line of ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dovetail.store.faults import FAULTS, fault


@pytest.mark.parametrize(
    "error", [sqlite3.DatabaseError("malformed"), UnicodeDecodeError("utf-8", b"\xd8", 0, 1, "no")]
)
def test_whatever_is_said_of_a_damaged_file_is_told_with_the_way_out(error) -> None:
    assert isinstance(error, FAULTS)
    told = str(fault(error, Path("s.db")))
    assert "s.db is damaged: " in told
    assert "dovetail studies s.db --rescue FILE" in told


def test_a_mistake_of_ours_is_raised() -> None:
    with pytest.raises(sqlite3.IntegrityError):
        fault(sqlite3.IntegrityError("UNIQUE constraint failed"), Path("s.db"))
