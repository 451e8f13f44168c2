"""Stages over layers of several kinds: as good as trying every cut, and as `balanced` where all kinds are alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.search.planners.balance import StageLoads, balanced
from dovetail.search.planners.sequence import PER_KIND, PER_POLICY, PER_STAGE, SequenceLoads, balanced_sequence

NEAR = 1e-9


def stage_time_s(case, stage, start, end):
    """The least time of a stage: every policy, and every number of first units recomputed."""
    best_s = math.inf
    kinds = case["kinds"][start:end]
    full_s, full_bytes = case["full_s"][stage], case["full_bytes"][stage]
    for unit_s, kept in zip(case["unit_s"][stage], case["kept_bytes"][stage], strict=True):
        for again in range(len(kinds) + 1):
            took_s = sum(full_s[k] for k in kinds[:again]) + sum(unit_s[k] for k in kinds[again:])
            stash = sum(full_bytes[k] for k in kinds[:again]) + sum(kept[k] for k in kinds[again:])
            need = case["fixed_bytes"][stage] + sum(case["unit_bytes"][stage][k] for k in kinds)
            need += case["in_flight"][stage] * stash + (case["recompute_bytes"][stage] if again else 0)
            if need <= case["memory_bytes"][stage]:
                best_s = min(best_s, case["fixed_s"][stage] + took_s)
    return best_s


def by_every_cut(case, min_units):
    num_stages, num_units = len(case["in_flight"]), len(case["kinds"])
    best = (math.inf, math.inf)

    def extend(stage, start, pace_s, sum_s):
        nonlocal best
        if stage == num_stages:
            best = min(best, (pace_s, sum_s)) if start == num_units else best
            return
        for end in range(start + min_units, num_units + 1):
            took_s = stage_time_s(case, stage, start, end)
            if took_s < math.inf:
                extend(stage + 1, end, max(pace_s, took_s), sum_s + took_s)

    extend(0, 0, 0.0, 0.0)
    return best


@st.composite
def cases(draw, kinds, num_kinds, num_policies):
    num_stages = draw(st.integers(1, 4))

    def each(values):
        return draw(st.lists(values, min_size=num_stages, max_size=num_stages))

    def by_kind(low, high):
        return st.lists(st.integers(low, high), min_size=num_kinds, max_size=num_kinds)

    def by_policy(low, high):
        return st.lists(by_kind(low, high), min_size=num_policies, max_size=num_policies)

    is_offered = draw(st.booleans())
    return {
        "kinds": kinds,
        "in_flight": [num_stages - stage for stage in range(num_stages)],
        "memory_bytes": each(st.sampled_from([10, 20, 40, 90])),
        "fixed_s": each(st.integers(0, 5)),
        "fixed_bytes": each(st.integers(0, 5)),
        "recompute_bytes": each(st.integers(0, 3)),
        "unit_bytes": each(by_kind(0, 3)),
        "full_s": each(by_kind(6, 9)) if is_offered else [[math.inf] * num_kinds] * num_stages,
        "full_bytes": each(by_kind(0, 1)),
        "unit_s": each(by_policy(1, 6)),
        "kept_bytes": each(by_policy(1, 6)),
    }


def loads_of(chosen, min_units):
    width = max(len(case["in_flight"]) for case in chosen)

    def padded(label):
        rows = [list(case[label]) + [case[label][-1]] * (width - len(case[label])) for case in chosen]
        return np.array(rows, dtype=float)

    return SequenceLoads(
        kinds=np.array(chosen[0]["kinds"]),
        is_stage=np.array([[stage < len(case["in_flight"]) for stage in range(width)] for case in chosen]),
        min_units=min_units,
        **{label: padded(label) for label in PER_STAGE + PER_KIND + PER_POLICY},
    )


@settings(max_examples=120)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2))
def test_the_cut_is_as_good_as_the_best_of_all(data, num_kinds, num_policies, min_units):
    kinds = data.draw(st.lists(st.integers(0, num_kinds - 1), min_size=1, max_size=7))
    chosen = data.draw(st.lists(cases(kinds, num_kinds, num_policies), min_size=1, max_size=4))
    found = balanced_sequence(loads_of(chosen, min_units))
    for row, case in enumerate(chosen):
        pace_s, sum_s = by_every_cut(case, min_units)
        assert found.fits[row] == (pace_s < math.inf)
        if not found.fits[row]:
            continue
        assert abs(found.pace_s[row] - pace_s) <= NEAR
        assert abs(found.sum_s[row] - sum_s) <= NEAR
        units = found.num_units[row, : len(case["in_flight"])]
        assert units.sum() == len(kinds)
        assert units.min() >= min_units
        ends = np.cumsum(units)
        for stage, (size, end) in enumerate(zip(units, ends, strict=True)):
            assert abs(found.stage_s[row, stage] - stage_time_s(case, stage, end - size, end)) <= NEAR


@settings(max_examples=60)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(10, 200), st.integers(0, 9), st.booleans())
def test_kinds_that_are_alike_give_the_answer_for_alike_layers(num_units, num_stages, memory, head, is_odd):
    one = np.ones((1, 1))
    fixed_s = np.zeros((1, num_stages))
    fixed_s[0, -1] = head
    shared: dict[str, Any] = {
        "is_stage": np.ones((1, num_stages), dtype=bool),
        "in_flight": np.arange(num_stages, 0.0, -1.0)[None],
        "memory_bytes": memory * one,
        "fixed_s": fixed_s,
        "fixed_bytes": 2 * one,
        "recompute_bytes": one,
    }
    own: dict[str, Any] = {"unit_bytes": 3 * one, "full_s": 4 * one, "full_bytes": 0.25 * one}
    policies: dict[str, Any] = {"unit_s": np.array([[[3.0, 3.5]]]), "kept_bytes": np.array([[[2.0, 1.0]]])}
    alike = balanced(StageLoads(num_units=np.array([num_units]), **shared, **own, **policies))
    kinds = np.arange(num_units) % 2 if is_odd else np.zeros(num_units, dtype=np.int64)
    own = {label: np.repeat(value[:, :, None], 2, axis=2) for label, value in own.items()}
    policies = {label: np.repeat(value[..., None], 2, axis=3) for label, value in policies.items()}
    found = balanced_sequence(SequenceLoads(kinds=kinds, **shared, **own, **policies))
    assert found.fits[0] == alike.fits[0]
    if found.fits[0]:
        assert abs(found.pace_s[0] - alike.pace_s[0]) <= NEAR
        assert abs(found.sum_s[0] - alike.sum_s[0]) <= NEAR
