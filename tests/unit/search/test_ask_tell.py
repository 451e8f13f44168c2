"""A search that asks is told of every point once, within its budget, and ends when it goes round in circles."""

from __future__ import annotations

from dovetail.search.algorithms import Scored
from dovetail.search.ask_tell import NUM_IDLE, run_search


def run(search, num_most=100):
    """Who was scored, in their order, and what the search was sent."""
    told, scored = {}, []

    def tell(points):
        scored.extend(points)
        told.update({point: Scored(point=point, loss=float(sum(point))) for point in points})

    run_search(search, told, tell, num_most=num_most)
    return scored


def test_points_asked_for_twice_are_scored_once_and_told_each_time():
    sent = []

    def search():
        sent.append((yield [(1,), (2,), (1,)]))
        sent.append((yield [(2,)]))

    assert run(search()) == [(1,), (2,)]
    assert [[one.point for one in some] for some in sent] == [[(1,), (2,), (1,)], [(2,)]]
    assert [one.loss for one in sent[0]] == [1.0, 2.0, 1.0]


def test_no_more_than_the_budget_is_scored():
    def search():
        for first in range(0, 100, 4):
            yield [(first + place,) for place in range(4)]

    assert run(search(), num_most=6) == [(0,), (1,), (2,), (3,), (4,), (5,)]


def test_a_search_that_asks_for_nothing_new_ends():
    num_asked = 0

    def search():
        nonlocal num_asked
        while True:
            num_asked += 1
            yield [(0,)]

    assert run(search()) == [(0,)]
    assert num_asked == NUM_IDLE + 1


def test_a_search_without_a_question_scores_nothing():
    assert run(iter_nothing()) == []


def iter_nothing():
    yield from ()
