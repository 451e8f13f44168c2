"""How sure an answer is: intervals and chances of one distribution agree, as numbers and as they are printed."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from dovetail.accuracy.evidence import CONFIDENCE_FRAC, GIVEN, Interval, Selection
from dovetail.accuracy.memory_margin import memory_room, memory_spread
from dovetail.hardware.catalog import chips
from dovetail.parallel.frameworks import frameworks
from dovetail.report.labels import likely
from dovetail.units import GIBI, format_bytes

H100 = chips["h100-sxm"]()
NEEDS = st.floats(20 * GIBI, 120 * GIBI)
FRAMEWORKS = st.sampled_from(sorted(frameworks.names()))
UPPER_FRAC = (1 + CONFIDENCE_FRAC) / 2
EDGE = 1e-9  # style: a tolerance; what lies on the edge may be rounded to either side


@given(need_bytes=NEEDS, framework=FRAMEWORKS, kept_free_frac=st.floats(0.0, 0.3))
def test_a_plan_is_as_likely_to_fit_as_its_interval_says(need_bytes: float, framework: str, kept_free_frac: float):
    chip = replace(H100, hbm_reserve_frac=kept_free_frac)
    room = memory_room(need_bytes, chip.usable_bytes, chip, framework)
    for end_bytes, probability in ((room.upper_bytes, UPPER_FRAC), (room.lower_bytes, 1 - UPPER_FRAC)):
        assume(abs(math.log(end_bytes / room.visible_bytes)) > EDGE)
        assert (end_bytes <= room.visible_bytes) == (room.fit_probability >= probability)
        if room.fit_probability >= probability + 0.005:  # the printed ones never contradict each other
            assert float(format_bytes(end_bytes).split()[0]) <= float(format_bytes(room.visible_bytes).split()[0])
    assert room.lower_bytes < room.upper_bytes
    assert room.usable_bytes + room.kept_free_bytes + room.driver_bytes == room.capacity_bytes


@given(framework=FRAMEWORKS, confidence_frac=st.floats(0.5, 0.99))
def test_memory_left_free_for_a_probability_is_the_upper_end_of_that_interval(framework: str, confidence_frac: float):
    spread = memory_spread(framework)
    _, upper_frac = spread.interval_frac(confidence_frac)
    need_bytes = (1 - spread.headroom_frac((1 + confidence_frac) / 2)) * H100.visible_bytes
    assert upper_frac * need_bytes <= H100.visible_bytes * (1 + EDGE)
    assert spread.fit_probability(need_bytes, H100.visible_bytes) >= (1 + confidence_frac) / 2 - EDGE


@given(probabilities=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2).map(sorted))
def test_a_chance_is_never_printed_above_a_larger_one(probabilities: list[float]):
    def size(text: str) -> tuple[int, int]:
        side = {"under": -1, "over": 1}.get(text.split()[0], 0)
        return int(text.removeprefix("under ").removeprefix("over ").split()[0]), side

    less, more = (size(likely(one)) for one in probabilities)
    assert less <= more


@given(num_near=st.integers(2, 10), shift_frac=st.floats(0.0, 0.5), upper_s=st.floats(1.0, 100.0))
def test_a_widened_interval_keeps_that_of_the_same_plan_had_it_been_given(
    num_near: int, shift_frac: float, upper_s: float
):
    plain = Interval(lower_s=0.5, upper_s=upper_s, num_rows=20, evidence="from runs")
    wide = replace(
        plain, upper_s=upper_s * (1 + shift_frac), selection=Selection(num_near=num_near, shift_frac=shift_frac)
    )
    assert math.isclose(wide.given_upper_s, plain.upper_s)
    assert (plain.selection, plain.covers) == (GIVEN, "")
    assert f"among {num_near} close plans" in wide.grounds
