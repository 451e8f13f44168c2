"""What the bar of a search says."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.cli.progress import _shown
from dovetail.search.candidates import Tally
from dovetail.search.objectives import objectives


class Bar:
    """As much of a bar as is used."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def add_task(self, *_: str, **__: object) -> int:
        return 0

    def update(self, _: int, **told: object) -> None:
        self.told = told


@pytest.mark.parametrize(("name", "usd"), [("time", 1.0), ("tokens/s/$", 50.0)])
def test_while_stages_are_cut_the_bar_shows_what_is_left_and_the_gap(name, usd):
    bar = Bar()
    show = _shown(bar, objectives[name], usd)
    show(3, 7, Tally(num_plans=100), 2.0 * usd)
    assert (bar.told["completed"], bar.told["total"]) == (3, 7)
    assert "best 2" in bar.told["said"]
    assert "gap" not in bar.told["said"]
    show(16, 40, Tally(num_plans=100), 2.0 * usd, 1.9)
    assert (bar.told["completed"], bar.told["total"]) == (16, 40)
    assert "cutting stages, gap 5.00 %" in bar.told["said"]
