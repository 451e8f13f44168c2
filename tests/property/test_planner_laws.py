"""The planners are exact: as good as the recurrence written out and as trying every cut; and more never hurts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.planners.least_pace import Cut, least_pace_s, least_sum
from dovetail.search.planners.placement.chain import Chain
from dovetail.search.planners.placement.devices import Fewest
from dovetail.search.planners.placement.paces import Copies, paces
from dovetail.search.planners.placement.placed import best_placement, placement_of
from dovetail.search.planners.placement.problem import (
    RECOMPUTES,
    LayerRun,
    Placement,
    PlacementProblem,
    Unplaced,
    Variant,
    synced_s,
)
from dovetail.search.planners.placement.reach import is_greedy_exact

NEAR = 1e-9

# --- PHAZE's recurrence, as it is written in the paper --------------------------------------------------------------


def load_of(problem, variant, start, end, position):
    """(load, devices, weight bytes) of a stage, by adding up its layers; infinite where memory does not hold it."""
    layers = [run for run in variant.runs for _ in range(run.num_layers)]
    stage = layers[start:end]
    forward, backward = sum(x.forward_s for x in stage), sum(x.backward_s for x in stage)
    weights, kept = sum(x.weight_bytes for x in stage), sum(x.activation_bytes for x in stage)
    into = layers[start].incoming_bytes if start else 0.0
    out_s = layers[end].incoming_bytes / problem.link_bytes_per_s if end < len(layers) else 0.0
    held, loads = problem.weight_copies * weights + kept, [math.inf]
    if problem.recompute != "always" or position == 1:
        fits = held + (position - 1) * kept <= problem.memory_bytes
        loads.append(into / problem.link_bytes_per_s + forward + out_s + backward if fits else math.inf)
    if problem.recompute != "never" and position > 1:
        fits = held + (position - 1) * into <= problem.memory_bytes
        again = into / problem.link_bytes_per_s + forward + max(forward, out_s) + backward
        loads.append(again if fits else math.inf)
    return min(loads), variant.tensor_parallel if any(x.is_sharded for x in stage) else 1, weights


def by_recurrence_s(problem):
    return min(_variant_by_recurrence_s(problem, variant) for variant in problem.variants)


def _variant_by_recurrence_s(problem, variant):
    num_layers = variant.num_layers

    @cache
    def stage(start, end, position):
        return load_of(problem, variant, start, end, position)

    @cache
    def pace_s(start, num_devices, num_stages):
        if num_stages == 0:
            return 0.0 if start == num_layers else math.inf
        found = [math.inf]
        for end in range(start + 1, num_layers + 1):
            load_s, devices, _ = stage(start, end, num_stages)
            if load_s < math.inf and devices <= num_devices:
                found.append(max(load_s, pace_s(end, num_devices - devices, num_stages - 1)))
        return min(found)

    best_s = math.inf
    for degree in range(1, min(problem.num_devices, variant.num_microbatches) + 1):
        each, room = -(-variant.num_microbatches // degree), problem.num_devices // degree
        for num_stages in range(1, min(room, num_layers) + 1):
            for end in range(1, num_layers + 1):
                load_s, devices, weights = stage(0, end, num_stages)
                if load_s < math.inf and devices <= room:
                    slowest_s = max(load_s, pace_s(end, room - devices, num_stages - 1))
                    sync_s = synced_s(degree, weights, problem.link_bytes_per_s)
                    best_s = min(best_s, slowest_s * (each + num_stages - 1) + sync_s)
    return best_s


@st.composite
def problems(draw, counts=(), is_uniform=False):
    counts = draw(st.sampled_from(counts or ([9], [8, 1], [1, 8], [1], [2, 2], [1, 3, 1], [3, 1, 2, 3], [1, 1, 1, 1])))
    edge = draw(st.sampled_from([None, 0.0, 1.0, 3.0]))
    variants = []
    for degree in draw(st.sampled_from([(1,), (2,), (1, 2), (1, 3)])):
        all_sharded = is_uniform or draw(st.booleans())
        runs = tuple(
            LayerRun(
                num_layers=count,
                forward_s=draw(st.sampled_from([0.0, 1.0, 2.0, 3.5])),
                backward_s=draw(st.sampled_from([0.0, 1.0, 2.0, 5.0])),
                weight_bytes=draw(st.integers(0, 8)),
                activation_bytes=draw(st.integers(0, 6)),
                incoming_bytes=draw(st.integers(0, 6)) if edge is None and not is_uniform else (edge or 0.0),
                is_sharded=degree > 1 and (all_sharded or draw(st.booleans())),
            )
            for count in counts
        )
        num_microbatches = draw(st.integers(1, 9))
        variants.append(Variant(tensor_parallel=degree, num_microbatches=num_microbatches, runs=runs))
    return PlacementProblem(
        variants=tuple(variants),
        num_devices=draw(st.integers(1, 10)),
        memory_bytes=draw(st.sampled_from([15.0, 30.0, 60.0, 300.0])),
        link_bytes_per_s=draw(st.sampled_from([1.0, 4.0, 100.0])),
        weight_copies=draw(st.sampled_from([2, 3])),
        recompute=draw(st.sampled_from(RECOMPUTES)),
    )


def seconds(found):
    return math.inf if isinstance(found, Unplaced) else found.batch_s


def is_near(a, b):
    return a == b or abs(a - b) <= NEAR * max(1.0, abs(b))


@settings(max_examples=125)
@given(problems())
def test_the_placement_is_as_fast_as_the_recurrence_written_out(problem):
    assert is_near(seconds(best_placement(problem)), by_recurrence_s(problem))


def by_every_pace_s(problem):
    """The best batch time with no pace left out and no stage taken greedily."""
    best_s = math.inf
    for variant in problem.variants:
        chain = Chain(problem, variant)
        fewest, copies = Fewest(chain), Copies(chain)
        for pace_s in paces(chain):
            for num_stages, needed in fewest.by_first_end(float(pace_s), chain.max_stages):
                end = np.flatnonzero(needed <= problem.num_devices)
                count, pace = np.full(len(end), num_stages), np.full(len(end), pace_s)
                batch_s = copies.batch_s(pace, count, needed[end], chain.weight_bytes[end])
                best_s = min(best_s, float(batch_s.min(initial=math.inf)))
    return best_s


@settings(max_examples=20)
@given(problems(counts=([16], [1, 15], [1, 14, 1], [8, 9], [2, 8, 5]), is_uniform=True), st.integers(1, 40))
def test_reaching_by_bounds_is_as_good_as_every_pace_in_full(problem, num_devices):
    """Long runs, where stages are jumped over and most paces left out."""
    problem = replace(problem, num_devices=num_devices)
    assert all(is_greedy_exact(Chain(problem, variant)) for variant in problem.variants)
    assert is_near(seconds(best_placement(problem)), by_every_pace_s(problem))


@settings(max_examples=50)
@given(problems())
def test_a_placement_is_complete_and_its_time_is_that_of_its_cut(problem):
    found = best_placement(problem)
    if isinstance(found, Unplaced):
        return
    ends = [stage.first_layer + stage.num_layers for stage in found.stages]
    assert [0, *ends[:-1]] == [stage.first_layer for stage in found.stages]
    assert ends[-1] == found.variant.num_layers
    assert sum(stage.num_devices for stage in found.stages) * found.data_parallel <= problem.num_devices
    again = placement_of(problem, found.variant, found.data_parallel, ends)
    assert again == found
    loads = [
        load_of(problem, found.variant, stage.first_layer, end, len(ends) - index)[0]
        for index, (stage, end) in enumerate(zip(found.stages, ends, strict=True))
    ]
    assert is_near(found.pace_s, max(loads))


@settings(max_examples=30)
@given(problems(), st.integers(1, 5))
def test_more_devices_or_memory_never_slow_a_batch(problem, more):
    before_s = seconds(best_placement(problem))
    wider = replace(problem, num_devices=problem.num_devices + more)
    deeper = replace(problem, memory_bytes=problem.memory_bytes * (1 + more))
    for richer in (wider, deeper):
        after_s = seconds(best_placement(richer))
        assert after_s <= before_s or is_near(after_s, before_s)


@settings(max_examples=30)
@given(problems())
def test_choosing_recompute_by_stage_is_never_slower_than_one_choice_for_all(problem):
    chosen_s = seconds(best_placement(replace(problem, recompute="per-stage")))
    for recompute in ("never", "always"):
        one_s = seconds(best_placement(replace(problem, recompute=recompute)))
        assert chosen_s <= one_s or is_near(chosen_s, one_s)


@settings(max_examples=30)
@given(problems())
def test_a_run_split_in_two_changes_nothing(problem):
    def split(variant):
        halves = [(run, part) for run in variant.runs for part in (run.num_layers // 2, -(-run.num_layers // 2))]
        return replace(variant, runs=tuple(replace(run, num_layers=part) for run, part in halves if part))

    cut = replace(problem, variants=tuple(split(variant) for variant in problem.variants))
    whole, parts = best_placement(problem), best_placement(cut)
    assert is_near(seconds(whole), seconds(parts))
    if isinstance(whole, Placement):
        assert isinstance(parts, Placement)


# --- layers by stage ------------------------------------------------------------------------------------------------


def by_every_cut(table, num_units, min_units):
    """(pace, sum) of the best cut, trying all of them."""
    best = (math.inf, math.inf)

    def extend(stage, left, pace_s, sum_s):
        nonlocal best
        if stage == len(table):
            best = min(best, (pace_s, sum_s)) if left == 0 else best
            return
        for n in range(min_units, left + 1):
            if table[stage][n] < math.inf:
                extend(stage + 1, left - n, max(pace_s, table[stage][n]), sum_s + table[stage][n])

    extend(0, num_units, 0.0, 0.0)
    return best


MOST_UNITS = 7


@st.composite
def tables(draw):
    """Seconds of each stage by its units, growing, and infinite beyond what memory holds: not convex."""
    num_stages = draw(st.integers(1, 4))
    found = []
    for _ in range(num_stages):
        steps = draw(st.lists(st.sampled_from([0, 1, 2, 5, math.inf]), min_size=MOST_UNITS, max_size=MOST_UNITS))
        found.append([float(draw(st.integers(0, 4)))])
        for step in steps:
            found[-1].append(found[-1][-1] + step)
    return found


def cut_of(some, units, min_units):
    """Tables of pipelines of any length as one array, and what is to be cut of each."""
    width = max(len(table) for table in some)
    empty = [math.inf] * (MOST_UNITS + 1)
    is_stage = np.array([[stage < len(table) for stage in range(width)] for table in some])
    table_s = np.array([table + [empty] * (width - len(table)) for table in some])
    return Cut(num_units=np.array(units), is_stage=is_stage, min_units=min_units), table_s


def cut_best(cut, table_s):
    """As planners do: the least pace, and at it the cut of the least sum."""
    pace_s = least_pace_s(cut, table_s)
    fits = np.isfinite(pace_s)
    num_most = np.where(fits[:, None], (table_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2), 0)
    return pace_s, least_sum(cut, table_s, num_most, fits)


@settings(max_examples=100)
@given(st.data(), st.integers(0, 2))
def test_the_least_pace_and_sum_are_those_of_the_best_of_all_cuts(data, min_units):
    some = data.draw(st.lists(tables(), min_size=1, max_size=6))
    units = [data.draw(st.integers(0, MOST_UNITS)) for _ in some]
    cut, table_s = cut_of(some, units, min_units)
    pace_s, num_units = cut_best(cut, table_s)
    for row, table in enumerate(some):
        best_pace_s, best_sum_s = by_every_cut(table, units[row], min_units)
        assert np.isfinite(pace_s[row]) == (best_pace_s < math.inf)
        if best_pace_s == math.inf:
            continue
        held = num_units[row, : len(table)]
        assert held.sum() == units[row]
        assert held.min() >= min_units
        assert not num_units[row, len(table) :].any()
        took_s = [table[stage][n] for stage, n in enumerate(held)]
        assert is_near(sum(took_s), best_sum_s)
        if units[row] or min_units:
            assert is_near(pace_s[row], best_pace_s)


@settings(max_examples=30)
@given(st.data())
def test_a_plan_alone_and_in_a_batch_has_one_cut(data):
    some = data.draw(st.lists(tables(), min_size=2, max_size=8))
    units = [data.draw(st.integers(0, MOST_UNITS)) for _ in some]
    pace_s, num_units = cut_best(*cut_of(some, units, 1))
    for row, table in enumerate(some):
        alone_s, alone_units = cut_best(*cut_of([table], [units[row]], 1))
        assert alone_s[0] == pace_s[row]
        if np.isfinite(alone_s[0]):
            assert alone_units[0].tolist() == num_units[row, : len(table)].tolist()
