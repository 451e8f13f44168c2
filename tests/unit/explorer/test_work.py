"""Who waits for whom: lanes, turns, what is remembered, and how a search is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from dovetail.api.progress import Progress, Tell
from dovetail.errors import InvalidInput
from dovetail.explorer.work import Cancelled, FairQueue, Task, Workers
from tests.apart import ended


def task(name: str) -> Task:
    loop = asyncio.new_event_loop()
    found = Task(act=print, args=(name,), loop=loop, future=loop.create_future(), limit_s=1.0)
    loop.close()
    return found


def test_askers_have_their_turn_however_much_one_of_them_asks():
    queue = FairQueue()
    for asker, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")):
        queue.put(asker, task(name))
    taken = [queue.take() for _ in range(6)]
    assert [one.args[0] for one in taken if one is not None] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_what_waits_can_be_taken_out_and_a_closed_queue_gives_nothing():
    queue = FairQueue()
    first, second = task("1"), task("2")
    queue.put("a", first)
    queue.put("a", second)
    assert queue.remove(first)
    assert not queue.remove(first)
    assert len(queue) == 1
    assert queue.take() is second
    queue.close()
    assert queue.take() is None


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    found = Workers()
    yield found
    found.stop()


def square(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    raise InvalidInput(f"{number} is no number", "here")


def long_search(num_s: float, tell: Tell) -> str:
    ends_s = time.monotonic() + num_s
    while time.monotonic() < ends_s:
        tell(Progress(task="wait", words="waiting"))
        time.sleep(0.02)
    return "found"


def test_answers_come_from_a_process_are_remembered_and_errors_come_as_they_are(workers: Workers):
    async def act() -> None:
        assert await workers.answer("me", "square 3", square, 3) == 9
        assert workers.known("square 3") == 9
        assert await workers.answer("me", "square 3", refused, 3) == 9  # from memory: nothing is called
        with pytest.raises(InvalidInput) as error:
            await workers.answer("me", "refused 3", refused, 3)
        assert (error.value.message, error.value.where) == ("3 is no number", "here")
        assert workers.known("refused 3") is None

    ended(act())


def test_a_search_tells_and_ends_when_nobody_waits_and_light_answers_do_not_wait_for_it(workers: Workers):
    async def act() -> None:
        told: list[Progress] = []
        one = asyncio.ensure_future(workers.search("me", "long", told.append, long_search, 60.0))
        other = asyncio.ensure_future(workers.search("you", "long", told.append, long_search, 60.0))
        third = asyncio.ensure_future(workers.search("me", "another", told.append, long_search, 60.0))
        while not told:
            await asyncio.sleep(0.02)
        assert await workers.answer("me", "square 4", square, 4) == 16
        workers.leave("me", "long")
        await asyncio.sleep(0.2)
        assert not other.done()
        workers.leave("you", "long")
        with pytest.raises(Cancelled):
            await other
        with pytest.raises(Cancelled):
            await one
        workers.leave_all("me")
        with pytest.raises(Cancelled):
            await third
        assert await workers.search("me", "short", told.append, long_search, 0.1) == "found"

    ended(act())
