from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.golden_files import check_golden

Golden = Callable[[str, Any], None]


@pytest.fixture
def golden(bless: bool) -> Golden:
    """`golden("llama3-70b", value)` compares plain JSON data with tests/golden/llama3-70b.json."""

    def check(name: str, value: Any) -> None:
        check_golden(Path(__file__).parent / f"{name}.json", value, bless)

    return check
