"""The study that ships with the explorer is what the present model says; blessing searches and writes it again."""

from __future__ import annotations

import pytest

from dovetail.evaluate import Outcome
from dovetail.explorer.answers import prepared, result_of
from dovetail.explorer.demo import FILE, demo_front, written_demo
from dovetail.files.written import write_file
from dovetail.store.version import physics_version


def test_the_demo_study_is_what_the_present_model_says(bless):
    if bless:
        write_file(FILE, written_demo())
        demo_front.cache_clear()
    front = demo_front()
    assert f"physics {physics_version()}." in front.said[0], "run `make bless`"
    for point in front.points[:: len(front.points) // 3]:
        [state] = point.states
        result = result_of(prepared(state), state, has_changes=False)
        assert isinstance(result, Outcome)
        assert result.tokens_per_s == pytest.approx(point.figures[0], rel=1e-5)
