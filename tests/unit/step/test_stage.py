from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from dovetail.cost.cost import Cost
from dovetail.cost.power import at_clock
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoints
from dovetail.parallel.plan import Plan
from dovetail.step.plan_table import lone_work
from dovetail.step.work import HELD_FRAC, StageWork, Work, compute_slowdown_fracs, slowest_frac, sustained
from dovetail.units import MICRO
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

H200 = chips["h200-sxm"]()
SLOWEST_FRAC = slowest_frac(64, H200.calibration.clock_spread_frac)
WORK = Work(
    cost=Cost(compute_s=10.0, clocked_s=6.0, energy_j=100.0, core_j=60.0, host_s=15.0),
    blocking_s=(1.0, 0.0, 0.0, 2.0, 0.0),  # tp, cp, ep, dp, pp
    overlappable_s=(5.0, 0.0, 0.0, 0.0, 0.0),
    recompute_s=4.0,
    limits_s=(5.0, 1.0, 3.0, 1.0, 0.0),
)


@cache
def graph(batch: int, kernels: str):
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=1))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=1024, kernels=kernels).training_graph()


def stage(chip: Chip, batch: int = 8, recompute: str = "none", kernels: str = "eager") -> StageWork:
    """One layer with embedding and head on one device, the whole batch at once."""
    plan = Plan(recompute=(recompute,), microbatch=batch)
    return lone_work(graph(batch, kernels), plan, chip, Precision())


def calibrated(chip: Chip, **changes: float) -> Chip:
    return replace(chip, calibration=replace(chip.calibration, **changes))  # type: ignore[arg-type]


def test_a_direction_waits_for_a_host_that_queues_more_slowly_than_compute_and_its_waits_take():
    assert WORK.host_wait_s == 2.0  # ten seconds of compute and three of collectives run while the host takes fifteen
    assert WORK.time_s == 15 + HELD_FRAC * (5 - 2)
    busy = replace(WORK, cost=replace(WORK.cost, host_s=9.0))
    assert busy.host_wait_s == 0.0
    assert busy.time_s == 13 + HELD_FRAC * 5


def test_the_host_queues_on_while_the_device_waits_for_a_collective():
    longer = replace(WORK, blocking_s=(5.0, 0.0, 0.0, 0.0, 0.0))
    assert longer.host_wait_s == 0.0
    assert longer.time_s == 15 + HELD_FRAC * 5


def test_at_half_the_clock_everything_but_the_host_and_the_network_takes_its_longer():
    slow = WORK.at_clock(0.5)
    assert slow.cost == at_clock(WORK.cost, 0.5)
    assert slow.cost.compute_s == 16.0
    assert slow.host_wait_s == 0.0  # the host is no slower
    assert slow.blocking_s == WORK.blocking_s
    assert slow.time_s == WORK.time_at_s(0.5) == 16 + 3 + HELD_FRAC * 5
    assert slow.recompute_s == pytest.approx(1.6 * 4)
    assert slow.limits_s == pytest.approx([1.6 * limit_s for limit_s in WORK.limits_s])
    assert sum(slow.limits_s) == pytest.approx(slow.cost.compute_s)


def test_communication_hides_behind_compute_which_it_slows_or_the_wait_for_the_host_which_it_does_not():
    held_s = HELD_FRAC * 3  # two of five seconds pass while the device has nothing to do
    assert WORK.comm[0].exposed_s == pytest.approx(1 + held_s)
    assert WORK.comm[0].hidden_s == pytest.approx(5 - held_s)
    more = replace(WORK, overlappable_s=(15.0, 0.0, 0.0, 0.0, 0.0))
    hidden_s = 12 - HELD_FRAC * 10  # the host's fifteen seconds but for the waits
    assert more.comm[0].hidden_s == pytest.approx(hidden_s)
    assert more.comm[0].exposed_s == pytest.approx(1 + 15 - hidden_s)
    assert more.time_s == pytest.approx(15 + 15 - hidden_s)
    assert more.time_at_s(0.5) == pytest.approx(16 + 3 + HELD_FRAC * 15)  # a slower clock hides more


def test_what_hides_costs_compute_by_who_runs_the_collectives_of_its_axis():
    work = Work(
        cost=Cost(compute_s=20.0, clocked_s=6.0),
        core=Cost(compute_s=4.0),
        overlappable_s=(6.0, 3.0, 2.0, 0.0, 0.0),
        compute_slowdown_frac=compute_slowdown_fracs(endpoints["dma"]),
    )
    adding, moving = endpoints["dma"].adding_slowdown_frac, endpoints["dma"].moving_held_frac
    assert work.time_s == pytest.approx(20 + adding * 6 + moving * (3 + 2))
    assert [one.hidden_s for one in work.comm[:3]] == pytest.approx(
        [6 * (1 - adding), 3 * (1 - moving), 2 * (1 - moving)]
    )
    # a stage with more to hide than it computes hides of each axis alike
    short = replace(work, cost=Cost(compute_s=7.0), core=Cost(compute_s=3.0))
    assert short.time_s == pytest.approx(7 + (11 - 7) + moving * 3 + adding * 4 * 6 / 8 + moving * 4 * 2 / 8)
    assert sum(one.exposed_s for one in short.comm) == pytest.approx(short.time_s - 7)
    assert replace(work, compute_slowdown_frac=compute_slowdown_fracs(endpoints["sm"])).time_s == pytest.approx(
        20 + HELD_FRAC * 11
    )


def test_waiting_for_the_host_hides_for_nothing_whoever_runs_collectives():
    ended = replace(WORK, compute_slowdown_frac=compute_slowdown_fracs(endpoints["ace"]))
    assert ended.time_s == pytest.approx(15 + endpoints["ace"].adding_slowdown_frac * 3)


def test_context_exchange_hides_behind_the_attention_core_however_fast_the_clock_makes_that():
    work = Work(cost=Cost(compute_s=10.0, clocked_s=6.0), core=Cost(compute_s=4.0, clocked_s=2.0))
    beside = replace(work, overlappable_s=(0.0, 7.0, 0.0, 0.0, 0.0))
    assert beside.time_s == pytest.approx(10 + (7 - 4) + HELD_FRAC * 4)
    assert beside.comm[1].exposed_s == pytest.approx(beside.time_s - 10)
    assert beside.time_at_s(0.5) == pytest.approx(16 + (7 - 6) + HELD_FRAC * 6)


def test_weight_gradients_that_are_put_off_take_their_share_of_the_waits_along():
    counted = replace(WORK, cost=replace(WORK.cost, flop=10.0), weight_flop=4.0)
    found = StageWork(forward=Work(), backward=counted)
    assert found.deferrable_wgrad_s == pytest.approx(0.4 * WORK.time_s)
    assert StageWork(forward=Work(), backward=Work()).deferrable_wgrad_s == 0.0


def test_no_work_is_none_at_any_clock():
    assert Work().at_clock(0.5) == Work()


def test_a_stage_that_draws_too_much_runs_at_the_clock_its_power_leaves_it():
    quiet = stage(replace(H200, tdp_w=10_000.0), batch=32)
    assert quiet.clock_frac == 1.0
    limited = stage(H200, batch=32)
    assert 0.5 < limited.clock_frac < 1.0
    for slow, full in ((limited.forward, quiet.forward), (limited.backward, quiet.backward)):
        assert full.draw(H200).power_w(H200, 1.0) > H200.tdp_w
        assert full.draw(H200).power_w(H200, slow.clock_frac) == pytest.approx(
            H200.tdp_w, rel=1e-6
        )  # style: a tolerance
        assert slow.cost.compute_s == pytest.approx(at_clock(full.cost, slow.clock_frac).compute_s)
        assert slow.cost.compute_s > full.cost.compute_s
        assert slow.cost.energy_j < full.cost.energy_j


def test_time_that_the_host_keeps_a_stage_waiting_leaves_it_power():
    busy, waiting = (stage(calibrated(H200, host_op_s=s), batch=32) for s in (0.0, 20_000 * MICRO))
    assert waiting.forward.host_wait_s > 0
    assert waiting.clock_frac > busy.clock_frac


def test_a_small_eager_layer_waits_for_its_host_and_a_large_one_does_not():
    small, large = stage(H200, batch=1), stage(H200, batch=64)
    assert small.forward.host_wait_s > 0
    assert small.forward.time_s == pytest.approx(small.forward.cost.host_s)
    assert large.backward.host_wait_s == 0.0


def test_a_faster_host_helps_only_what_waits_for_it():
    fast = calibrated(H200, host_op_s=0.0, host_kernel_s=0.0, host_gradient_s=0.0, host_autograd_s=0.0)
    assert stage(fast, batch=1).forward.time_s < stage(H200, batch=1).forward.time_s
    assert stage(fast, batch=1).forward.host_wait_s == 0.0


def test_an_eager_block_that_is_recomputed_costs_its_host_more():
    def rerun_host_s(recompute: str, rerun_s: float) -> float:
        return float(stage(calibrated(H200, host_rerun_s=rerun_s), recompute=recompute).backward.cost.host_s)

    assert rerun_host_s("none", 1.0) == rerun_host_s("none", 0.0)
    assert rerun_host_s("full", 1.0) == pytest.approx(rerun_host_s("full", 0.0) + 1.0)  # one layer, not its ends


def test_a_fused_block_is_recomputed_without_a_word_from_the_host():
    once, again = (
        stage(calibrated(H200, host_rerun_s=s), recompute="full", kernels="fused").backward.cost.host_s
        for s in (0.0, 1.0)
    )
    assert once == again


def test_power_is_idle_power_work_and_links_over_the_time_that_passes():
    work = replace(WORK, sent_bytes=1000.0)
    chip = replace(H200, energy=replace(H200.energy, idle_w=40.0, link_j_per_byte=0.01))
    assert work.draw(chip).power_w(chip, 1.0) == pytest.approx(40 + (100 + 10) / work.time_s)
    assert Work().draw(chip).power_w(chip, 1.0) == 40.0


def test_at_a_slower_clock_a_stage_draws_what_is_left_of_its_energy_over_its_longer_time():
    drawn_w = H200.energy.idle_w + at_clock(WORK.cost, 0.5).energy_j / WORK.time_at_s(0.5)
    assert WORK.draw(H200).power_w(H200, 0.5) == pytest.approx(drawn_w)


def test_a_backward_pass_that_draws_more_leaves_the_forward_pass_its_clock():
    """With one clock for both, more bandwidth that serves the backward pass alone would slow the forward pass."""
    limit_j = 2 * (H200.tdp_w - H200.energy.idle_w) * WORK.cost.compute_s
    hot = replace(WORK, cost=replace(WORK.cost, energy_j=limit_j, core_j=limit_j))
    cool, both_hot = (
        sustained(StageWork(forward=forward, backward=hot), H200, num_devices=1) for forward in (WORK, hot)
    )
    assert cool.forward.clock_frac > both_hot.forward.clock_frac
    assert cool.backward.clock_frac == pytest.approx(both_hot.backward.clock_frac)
    clocks = sorted((cool.forward.clock_frac, cool.clock_frac, cool.backward.clock_frac))
    assert clocks[1] == cool.clock_frac


def test_entering_a_pass_costs_its_host_once():
    def host_s(**calls: float) -> tuple[float, float]:
        found = stage(calibrated(H200, **{"host_call_s": 0.0, "host_backward_s": 0.0} | calls))
        return found.forward.cost.host_s, found.backward.cost.host_s

    forward_s, backward_s = host_s()
    assert host_s(host_call_s=3.0, host_backward_s=5.0) == pytest.approx((forward_s + 3, backward_s + 5))


def test_the_slowest_of_more_devices_is_slower_and_one_alone_is_not():
    fracs = [slowest_frac(num_devices, 0.017) for num_devices in (1, 2, 8, 64, 1024, 16_384)]
    assert fracs[0] == 1.0
    assert all(later < earlier for earlier, later in pairwise(fracs))
    assert 0.92 < fracs[-1] < fracs[3] == pytest.approx(0.962, abs=0.001)


def test_chips_of_whose_spread_nothing_is_known_are_taken_to_be_alike():
    assert slowest_frac(1024, 0.0) == 1.0


def test_a_stage_takes_the_slowest_devices_time_and_the_mean_devices_energy():
    work = StageWork(forward=WORK, backward=WORK)
    unlimited = replace(H200, tdp_w=10_000.0)
    alone, among = sustained(work, unlimited, 1), sustained(work, unlimited, 64)
    assert alone.clock_frac == 1.0
    assert among.clock_frac == SLOWEST_FRAC
    assert among.forward.time_s == WORK.time_at_s(SLOWEST_FRAC)
    assert among.forward.cost.energy_j == alone.forward.cost.energy_j == WORK.cost.energy_j


@pytest.mark.parametrize("num_devices", [1, 4, 1024])
def test_a_faster_host_never_makes_a_stage_slower_whatever_power_its_waits_left(num_devices):
    cost = Cost(compute_s=0.030, clocked_s=0.020, energy_j=25.0, core_j=15.0, host_s=0.0)
    hosts_s = [0.042 - 0.0002 * index for index in range(60)]  # from one that is waited for to one that never is
    ways = [
        replace(WORK, cost=replace(cost, host_s=host_s), blocking_s=(0.0,) * 5, overlappable_s=(0.0,) * 5)
        for host_s in hosts_s
    ]
    works = [sustained(StageWork(forward=way, backward=way), H200, num_devices) for way in ways]
    assert works[0].forward.host_wait_s > 0.0 == works[-1].forward.host_wait_s
    assert works[0].clock_frac > works[-1].clock_frac
    times_s = [work.forward.time_s for work in works]
    assert all(faster <= slower * (1 + 1e-9) for slower, faster in pairwise(times_s))  # style: a tolerance
