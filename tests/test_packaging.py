"""What pyproject.toml asks for is what the lock pins."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK_LINES = [
    line
    for line in (ROOT / "requirements" / "test.lock").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
WANTED = [
    Requirement(text)
    for text in (
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["test"],
        *PROJECT["build-system"]["requires"],
    )
]


def pins() -> dict[str, str]:
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LOCK_LINES)}


def test_every_line_of_the_lock_is_a_plain_pin():
    assert LOCK_LINES
    assert [line for line in LOCK_LINES if not re.fullmatch(r"[\w.\-]+==[\w.\-]+", line)] == []


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_what_the_project_asks_for_is_pinned_within_its_range(wanted):
    pinned = pins().get(canonicalize_name(wanted.name))
    assert pinned is not None, f"requirements/test.lock does not pin {wanted.name}; see its first lines"
    assert wanted.specifier.contains(pinned), f"the lock pins {wanted.name} {pinned}, outside {wanted.specifier}"


def test_the_package_itself_is_not_locked():
    assert "dovetail" not in pins()
