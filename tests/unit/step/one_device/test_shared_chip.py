"""Who gets how much of a chip that compute and collectives share, by hand."""

from __future__ import annotations

import pytest

from dovetail.step.one_device.shared_chip import (
    Cores,
    Load,
    Outlook,
    Step,
    ahead,
    due,
    dynamic,
    hbm_left_frac,
    least_price_ratio,
    lost_frac,
    priority,
    static_share,
)
from dovetail.step.one_device.shared_loop import shared_iteration


def step(hbm: float = 0.0, core: float = 0.0, waits: str = "", issues: str = "", compute_s: float = 1.0) -> Step:
    return Step(compute_s=compute_s, hbm_frac=hbm, core_frac=core, waits=tuple(waits), issues=tuple(issues))


def load(hbm: float = 0.0, core: float = 0.0, link_s: float = 1.0, latency_s: float = 0.0, units: int = 0) -> Load:
    return Load(link_s=link_s, latency_s=latency_s, hbm_frac=hbm, core_frac=core, num_units=units)


@pytest.mark.parametrize(
    ("hbm_left", "held", "speed"),
    [(0.4, 0.0, 0.5), (0.8, 0.0, 1.0), (1.0, 0.0, 1.0), (1.0, 0.5, 1 / 1.6), (0.4, 0.5, 0.5), (0.6, 0.5, 1 / 1.6)],
)
def test_a_row_has_the_speed_that_the_scarcer_of_hbm_and_cores_leaves(hbm_left, held, speed):
    """It wants 0.8 of HBM, and 0.6 of its time goes with the cores: half of them make that 1.2."""
    assert step(0.8, 0.6).speed_frac(hbm_left, Cores(frac=held)) == pytest.approx(speed)


@pytest.mark.parametrize(("num_units", "slowdown"), [(0, 1.0), (1, 1.25), (4, 1.25), (5, 2.0), (8, 2.0)])
def test_units_between_two_that_were_asked_for_cost_what_the_greater_costs(num_units, slowdown):
    known = Step(compute_s=1.0, hbm_frac=0.0, core_frac=1.0, slowdowns=((4, 1.25), (8, 2.0)))
    assert known.speed_frac(1.0, Cores(frac=0.9, num_units=num_units)) == pytest.approx(1 / slowdown)


@pytest.mark.parametrize(
    ("row_hbm", "hbm", "most", "free"),
    [(0.7, 0.0, 1.0, 1.0), (0.7, 0.4, 1.0, 0.75), (0.7, 0.2, 1.0, 1.0), (0.5, 2.0, 0.5, 0.25), (1.0, 0.5, 1.0, 0.0)],
)
def test_a_collective_goes_as_fast_as_hbm_and_its_links_let_it(row_hbm, hbm, most, free):
    assert load(hbm).most_rate_frac == pytest.approx(most)
    assert load(hbm).free_rate_frac(step(row_hbm)) == pytest.approx(free)
    assert priority(Outlook(step=step(row_hbm), load=load(hbm), worth=lambda: 0.0)) == pytest.approx(most)


@pytest.mark.parametrize(
    ("row_hbm", "hbm", "rate", "left"),
    [(0.9, 0.4, 1.0, 0.6), (0.9, 0.4, 0.5, 0.8), (0.9, 0.8, 1.0, 0.5), (0.3, 0.8, 1.0, 0.3), (0.3, 0.8, 0.5, 0.6)],
)
def test_a_row_keeps_what_is_left_of_hbm_and_at_least_half_or_what_it_wants(row_hbm, hbm, rate, left):
    assert hbm_left_frac(step(row_hbm), load(hbm), rate) == pytest.approx(left)
    lost = 1 - left / row_hbm if left < row_hbm else 0.0
    assert lost_frac(step(row_hbm), load(hbm), rate) == pytest.approx(lost)


def test_link_time_costs_what_the_better_rate_takes_of_compute():
    """Beside a row of 0.9 of HBM, 0.25 of the rate is free; held cores cost 1 - 1/1.125 whatever the rate."""
    assert least_price_ratio(step(0.9), load(0.4)) == 0.0
    assert least_price_ratio(step(1.0), load(0.4)) == pytest.approx(0.4)  # nothing is free
    assert least_price_ratio(step(0.9, 0.5), load(0.4, 0.2)) == pytest.approx(1 / 3)
    assert least_price_ratio(step(0.0, 0.5), load(0.4, 0.2)) == pytest.approx(1 - 1 / 1.125)


@pytest.mark.parametrize(("worth", "rate"), [(1.0, 1.0), (0.45, 1.0), (0.43, 0.25), (0.0, 0.25)])
def test_dynamic_arbitration_takes_hbm_where_link_time_is_worth_what_compute_loses(worth, rate):
    """From 0.25 to 1 of the rate compute loses a third: link time must be worth 4/9 of it."""
    assert dynamic(Outlook(step=step(0.9), load=load(0.4), worth=lambda: worth)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("feed", "hbm", "cores", "units"), [(0.5, 0.3, 0.05, 3), (1.0, 0.5, 0.1, 5), (0.25, 0.15, 0.025, 2)]
)
def test_a_static_split_feeds_the_hungriest_of_each_up_to_half(feed, hbm, cores, units):
    share, held = static_share({"a": load(0.4, 0.1, units=3), "b": load(0.6, 0.05, units=5)}, feed)
    assert (share, held.frac) == pytest.approx((hbm, cores))
    assert held.num_units == units
    assert static_share({"a": load(0.1, 0.9)}, 1.0)[1].frac == 0.5
    assert static_share({}, 1.0) == (0.0, Cores())


def test_a_deadline_is_the_next_row_that_waits_or_the_end():
    rows = due((step(waits="a"), step(), step(waits="b"), step(waits="ab")))
    asked = [("a", -1), ("a", 0), ("a", 3), ("b", 0), ("b", 2), ("c", 0)]
    assert [rows.deadline(name, at) for name, at in asked] == [0, 3, 4, 2, 3, 4]


def test_what_lies_ahead_is_summed_row_by_row_over_all_iterations():
    rows = (step(0.7, compute_s=2.0, issues="ab"), step(1.0, compute_s=3.0, issues="b"))
    found = ahead(rows, {"a": load(0.4, link_s=0.5), "b": load(0.1, link_s=0.25)}, 2)
    assert found.compute_s == pytest.approx((0.0, 2.0, 5.0, 7.0, 10.0))
    assert found.issued_s == pytest.approx((0.0, 0.75, 1.0, 1.75, 2.0))
    assert found.free_s == pytest.approx((0.0, 1.5, 1.5, 3.0, 3.0))  # beside the hungriest, 0.75 of the first row
    assert found.lost_s == pytest.approx((0.0, 0.0, 1.2, 1.2, 2.4))  # 0.4 of the second


IN_TURN = (step(issues="ab"), step(waits="b"), step(waits="a"))


@pytest.mark.parametrize("arbitration", ["static", "priority", "dynamic"])
@pytest.mark.parametrize(
    ("link_s", "latency_s", "blocking_s"),
    [
        (1.5, 0.0, 1.0),  # half a second for b; a sends a second beside the second row, and half a second more
        (1.5, 0.25, 1.0),  # a sends while b's last byte is on its way
        (0.1, 0.25, 0.75),  # and is done before that has come
        (0.9, 0.0, 0.5),
    ],
)
def test_the_collective_that_is_due_first_goes_first(arbitration, link_s, latency_s, blocking_s):
    loads = {"a": load(link_s=link_s), "b": load(link_s=0.5, latency_s=latency_s)}
    found = shared_iteration(IN_TURN, loads, arbitration)
    assert found.blocking_s == pytest.approx(blocking_s)
    assert found.iteration_s == pytest.approx(3.0 + blocking_s)
    assert found.slowed_s == pytest.approx(0.0, abs=1e-12)


def test_a_static_split_sends_at_the_rate_that_its_share_feeds():
    """0.2 of HBM feeds half the rate: half a second of links takes one, of which the second row hides what it lasts."""
    rows = (step(0.1, issues="a"), step(0.1, waits="a"))
    assert shared_iteration(rows, {"a": load(0.4, link_s=0.5)}, "static", 0.5).blocking_s == pytest.approx(1.0)
    beside = (step(0.1, issues="a"), step(0.1, compute_s=0.75), step(0.1, waits="a"))
    found = shared_iteration(beside, {"a": load(0.4, link_s=0.5)}, "static", 0.5)
    assert found.blocking_s == pytest.approx(0.25)
    assert found.alone_s == pytest.approx(2.75)
    assert found.iteration_s == pytest.approx(3.0)


def test_a_collective_alone_takes_all_of_hbm_that_it_can_use():
    """It wants twice what HBM gives, so half the rate is the most it has: a second for half a second of links."""
    rows = (step(0.1, issues="a"), step(0.1, waits="a"))
    for arbitration in ("priority", "dynamic"):
        assert shared_iteration(rows, {"a": load(2.0, link_s=0.5)}, arbitration).blocking_s == pytest.approx(1.0)


def test_without_collectives_an_iteration_is_its_compute():
    found = shared_iteration((step(), step(compute_s=0.5)), {}, "dynamic")
    assert (found.iteration_s, found.alone_s, found.blocking_s, found.slowed_s) == (1.5, 1.5, 0.0, 0.0)
