"""Streams of several ranks, event by event, against closed forms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.step.pass_order import Kind
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.step.stream_events import IN, OUT, Call, RankProgram, RankTimeline, played_out

HELD = 0.15


@dataclass
class Written:
    """A program written line by line; the host takes no time unless it is given some."""

    rank: int = 0
    rows: list[tuple[float, float, int, str, tuple[int, ...], bool]] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    batched: list[int] = field(default_factory=list)

    def kernel(self, time_s: float, stream: str = "", waits: tuple[int, ...] = (), host_s: float = 0.0) -> int:
        self.rows.append((host_s, time_s, 1, stream, waits, False))
        return len(self.rows) - 1

    def view(self, stream: str = "", waits: tuple[int, ...] = (), host_s: float = 0.0, *, reads: bool = False) -> int:
        self.rows.append((host_s, 0.0, 0, stream, waits, reads))
        return len(self.rows) - 1

    def call(self, time_s: float, stream: str = "comm", waits: tuple[int, ...] = (), **known: object) -> int:
        place = len(self.rows)
        self.rows.append((0.0, 0.0, 1, stream, waits, False))
        fields = {"match": (self.rank, place), "num_recorded": 1, "kind": "all-gather", "dimension": "net"} | known
        self.calls[place] = Call(time_s=time_s, **fields)  # type: ignore[arg-type]
        return place

    def message(self, kind: str, other: int, time_s: float, number: object, waits: tuple[int, ...] = ()) -> int:
        ends = (self.rank, other) if kind == "send" else (other, self.rank)
        way = OUT if kind == "send" else IN
        place = self.call(
            time_s, waits=waits, match=(ends, number), num_recorded=2, kind=kind, directions=way,
            words=f"{kind} {number}", stream=f"{kind} {ends}",
        )  # fmt: skip
        self.batched.append(place)
        return place

    def program(self) -> RankProgram:
        host_s, kernel_s, launches, streams, waits, reads = zip(*self.rows, strict=True)
        return RankProgram(
            rank=self.rank, host_s=host_s, kernel_s=kernel_s, launches=launches, streams=streams, waits=waits,
            is_awaited=reads, calls=self.calls, batched=frozenset(self.batched),
        )  # fmt: skip


def played(*written: Written) -> tuple[RankTimeline, ...]:
    found = played_out([one.program() for one in written])
    for one in found:
        parts_s = one.compute_s + one.host_s + one.idle_s + sum(one.exposed_s.values())
        assert parts_s == pytest.approx(one.end_s)
    return found


def test_a_gather_behind_a_longer_kernel_is_hidden_and_takes_its_share_of_the_chip() -> None:
    code = Written()
    gather = code.call(2.0, slowdown_frac=HELD)
    code.kernel(5.0)
    code.kernel(1.0, waits=(gather,))
    [found] = played(code)
    assert found.end_s == pytest.approx(5.0 + 1.0 + HELD * 2.0)
    assert not found.exposed_s


def test_a_gather_that_is_waited_for_at_once_is_exposed_to_the_last_second() -> None:
    code = Written()
    code.kernel(1.0)
    gather = code.call(2.0, waits=(0,), slowdown_frac=HELD)
    code.kernel(5.0, waits=(gather,))
    [found] = played(code)
    assert found.end_s == 8.0
    assert found.exposed_s == {gather: 2.0}


def test_of_a_gather_longer_than_what_runs_beside_it_the_rest_is_exposed() -> None:
    code = Written()
    gather = code.call(10.0, slowdown_frac=0.5)
    code.kernel(2.0)
    code.kernel(1.0, waits=(gather,))
    [found] = played(code)
    assert found.end_s == 11.0
    assert found.exposed_s[gather] == pytest.approx(6.0)


def test_buckets_of_gradients_run_behind_the_backward_pass_and_the_last_one_is_exposed() -> None:
    code, reduced = Written(), []
    for _ in range(4):
        made = code.kernel(3.0)
        reduced.append(code.call(2.0, waits=(made,), kind="all-reduce"))
    code.kernel(0.5, waits=tuple(reduced))
    [found] = played(code)
    assert found.end_s == 4 * 3.0 + 2.0 + 0.5
    assert found.exposed_s == {reduced[-1]: 2.0}


def test_collectives_at_once_share_a_dimension_of_the_network_and_others_do_not() -> None:
    code = Written()
    first = code.call(2.0, stream="a")
    second = code.call(2.0, stream="b")
    third = code.call(3.0, stream="c", dimension="nvlink")
    [found] = played(code)
    assert found.ends_s[first] == found.ends_s[second] == 4.0
    assert found.ends_s[third] == 3.0


def test_time_is_exposed_by_the_collective_that_is_waited_for_and_not_by_one_beside_it() -> None:
    code = Written()
    awaited = code.call(2.0, stream="a", dimension="nvlink")
    other = code.call(9.0, stream="b")
    code.kernel(3.0, waits=(awaited,))
    code.kernel(1.0, waits=(other,))
    [found] = played(code)
    assert found.exposed_s == {awaited: 2.0, other: 4.0}


def test_a_message_out_does_not_slow_one_that_comes_in() -> None:
    here, there = Written(0), Written(1)
    for one, other in ((here, 1), (there, 0)):
        one.message("send", other, 2.0, "x")
        one.message("recv", other, 2.0, "x")
    found = played(here, there)
    assert [one.end_s for one in found] == [2.0, 2.0]


def test_kernels_of_two_streams_take_as_long_as_one_behind_the_other() -> None:
    code = Written()
    first, second = code.kernel(2.0), code.kernel(1.0, stream="copy")
    [found] = played(code)
    assert found.ends_s[second] == 2.0
    assert found.ends_s[first] == found.end_s == 3.0


def test_a_host_that_reads_waits_for_the_device_and_launches_afterwards() -> None:
    code = Written()
    code.kernel(4.0)
    code.view(reads=True)
    code.kernel(1.0, host_s=0.5)
    [found] = played(code)
    assert found.end_s == 5.5
    assert found.host_s == 0.5


def test_a_collective_starts_when_its_last_rank_comes_and_others_are_idle() -> None:
    early, late = Written(0), Written(1)
    for one, time_s in ((early, 1.0), (late, 3.0)):
        one.kernel(time_s)
        meet = one.call(2.0, match=("all",), num_recorded=2, waits=(0,), kind="all-reduce")
        one.kernel(1.0, waits=(meet,))
    first, second = played(early, late)
    assert first.end_s == second.end_s == 6.0
    assert first.idle_s == 2.0
    assert second.idle_s == 0.0


def test_a_wait_of_a_view_holds_back_what_follows_on_its_stream() -> None:
    code = Written()
    gather = code.call(2.0)
    code.view(waits=(gather,))
    code.kernel(1.0)
    [found] = played(code)
    assert found.end_s == 3.0


def test_what_waits_for_a_view_waits_for_all_before_it_on_its_stream() -> None:
    code = Written()
    code.kernel(2.0)
    mark = code.view()
    code.call(1.0, waits=(mark,))
    [found] = played(code)
    assert found.end_s == 3.0


def pipeline(
    num_stages: int, num_microbatches: int, schedule: str, forward_s: float, backward_s: float
) -> list[Written]:
    """Stages that compute and send in the order of a schedule; messages take no time."""
    order = pipelines[schedule].order(PipelineShape(num_stages=num_stages, num_microbatches=num_microbatches))
    ranks = [Written(stage) for stage in range(num_stages)]
    for stage, (code, rows) in enumerate(zip(ranks, order.devices, strict=True)):
        for kind, _, microbatch, _ in rows.tolist():
            is_forward = kind == Kind.FORWARD
            source, target = (stage - 1, stage + 1) if is_forward else (stage + 1, stage - 1)
            waits: tuple[int, ...] = ()
            if 0 <= source < num_stages:
                waits = (code.message("recv", source, 0.0, (is_forward, microbatch)),)
            done = code.kernel(forward_s if is_forward else backward_s, waits=waits)
            if 0 <= target < num_stages:
                code.message("send", target, 0.0, (is_forward, microbatch), waits=(done,))
    return ranks


@pytest.mark.parametrize("num_stages", [2, 4])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_pipeline_of_free_messages_takes_microbatches_and_stages_less_one_passes(
    num_stages: int, schedule: str
) -> None:
    num_microbatches = 8
    found = played(*pipeline(num_stages, num_microbatches, schedule, 1.0, 2.0))
    assert max(one.end_s for one in found) == pytest.approx((num_microbatches + num_stages - 1) * 3.0)
    assert all(one.compute_s == pytest.approx(num_microbatches * 3.0) for one in found)


def test_ranks_that_wait_for_one_another_are_named_in_one_line() -> None:
    here, there = Written(0), Written(1)
    for one, other in ((here, 1), (there, 0)):
        got = one.message("recv", other, 1.0, "x")
        one.kernel(1.0, waits=(got,))
        one.message("send", other, 1.0, "x", waits=(got,))
    with pytest.raises(InvalidInput, match=r"for ever: rank 0 in recv x \(operator 0\); rank 1 in recv x"):
        played(here, there)


def test_ranks_that_call_different_collectives_in_one_place_are_refused() -> None:
    here, there = Written(0), Written(1)
    here.call(1.0, match=("all",), num_recorded=2, kind="all-reduce", words="all-reduce")
    there.call(1.0, match=("all",), num_recorded=2, kind="broadcast", words="broadcast")
    with pytest.raises(InvalidInput, match=r"rank 1 calls broadcast .* where rank 0 calls all-reduce"):
        played(here, there)


def test_sends_and_receives_side_by_side_on_one_stream_are_one_batch() -> None:
    here, there = Written(0), Written(1)
    for one, other in ((here, 1), (there, 0)):
        for kind in ("send", "recv"):
            place = one.message(kind, other, 1.0, "x")
            one.rows[place] = (*one.rows[place][:3], "pp", *one.rows[place][4:])
    assert [one.end_s for one in played(here, there)] == [1.0, 1.0]
    apart = [replace(one.program(), batched=frozenset()) for one in (here, there)]
    with pytest.raises(InvalidInput, match="for ever"):
        played_out(apart)


def test_an_operator_that_waits_for_a_later_one_is_refused() -> None:
    code = Written()
    code.kernel(1.0, waits=(3,))
    with pytest.raises(InvalidInput, match="operator 0 of rank 0 waits for operator 3"):
        played(code)
