"""What the bar of a search says."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.cli.progress import _shown, _shown_mining, _shown_steps
from dovetail.search.candidates import Tally
from dovetail.search.mining.miner import Standing
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


def test_nothing_is_said_not_to_fit_before_anything_was_timed():
    bar = Bar()
    show = _shown(bar, objectives["time"], 1.0)
    show(1, 7, Tally(num_plans=100), float("inf"))
    assert "bounding" in bar.told["said"]
    show(7, 7, Tally(num_plans=100, num_evaluated=5), float("inf"))
    assert "nothing fits yet" in bar.told["said"]
    show(0, 40, Tally(num_plans=100), float("inf"), 1.5)
    assert bar.told["said"] == "nothing fits yet; cutting stages"


def test_the_bar_of_a_search_for_a_chip_shows_the_best_the_bound_and_what_is_open():
    bar = Bar()
    show = _shown_mining(bar, "tpuv2-like", 60)
    show(Standing(num_evaluated=8, loss=float("inf"), bound=0.2, num_open=100))
    assert "tpuv2-like" not in bar.told["said"]
    show(Standing(num_evaluated=16, loss=0.5, bound=0.4, num_open=24))
    assert (bar.told["completed"], bar.told["total"]) == (16, 40)
    assert "2.000x tpuv2-like, at most 2.500x" in bar.told["said"]
    show(Standing(num_evaluated=20, loss=0.5, bound=0.4, num_open=1000))
    assert bar.told["total"] == 60  # no more are looked at


def test_the_bar_of_a_study_counts_what_is_done_and_says_what_runs():
    bar = Bar()
    show = _shown_steps(bar, ["resnet-18", "bert-base"])
    show("resnet-18: proven best")
    assert bar.told == {"completed": 0, "said": "resnet-18: proven best"}
    show("bert-base: proven best")
    assert bar.told["completed"] == 1
    show("one chip for all models")
    show("bert-base: chips by stage, mosaic")
    assert bar.told == {"completed": 2, "said": "bert-base: chips by stage, mosaic"}
