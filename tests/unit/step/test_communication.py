"""Collectives of a block, added up by hand: what is waited for, what runs beside compute, and what hosts cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from dovetail.comm.library.on_group import library_s
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import Plan
from dovetail.step.communication import (
    CollectiveCalls,
    CommTotals,
    CommVariants,
    _waited_frac,
    add_communication,
    by_group,
    collective_overheads,
    comm_totals,
    exclude_last_ring_part,
    overlaps,
    timed,
)
from dovetail.step.work import COMM_AXES, COMPUTE, HOST, NUM_ROWS, NUM_TIMED, ROWS
from dovetail.workload.graph import Phase
from tests.links_alone import links_alone

TP, CP, EP, DP = (COMM_AXES.index(name) for name in ("tp", "cp", "ep", "dp"))
CLUSTER = links_alone(clusters["dgx-h100"].build(16))


def calls(*rows: tuple[int, Phase, float], num_ranks: int = 4, awaited: tuple[int, ...] = ()) -> CollectiveCalls:
    """One variant; each row an axis, a phase and its seconds, which is also a hundredth of its bytes."""
    axis, phase, time_s = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    return CollectiveCalls(
        axis=axis,
        phase=phase,
        runs=np.ones((count, 2), dtype=bool),
        is_awaited=np.isin(np.arange(count), awaited),
        num_ranks=np.full((1, count), num_ranks),
        num_calls=(time_s[None, :] > 0).astype(np.int64),
        time_s=time_s[None, :].astype(float),
        sent_bytes=100.0 * time_s[None, :],
        collective=np.zeros((1, count), dtype=np.int64),
        group=np.zeros((1, count), dtype=np.int64),
        payload_bytes=100.0 * time_s[None, :],
    )


def variants(**may_overlap: bool) -> CommVariants:
    flags = {"host": True, "routing": True} | may_overlap
    made = {name: np.array([flag]) for name, flag in flags.items()}

    class One(SimpleNamespace):
        def __len__(self) -> int:
            return 1

    return cast("CommVariants", One(may_overlap=made))


@pytest.mark.parametrize(
    ("sent", "num_ranks", "flags", "frac"),
    [
        (((TP, Phase.FORWARD, 1.0),), 4, {"host": False}, 1 + 1 / 2 + 1 / 3 + 1 / 4),
        (((TP, Phase.FORWARD, 1.0),), 2, {"host": False}, 1.5),
        (((TP, Phase.FORWARD, 0.0),), 4, {"host": False}, 1.0),  # nothing is sent, so nobody is met
        (((DP, Phase.FORWARD, 1.0),), 4, {"host": False}, 1.0),
        (((EP, Phase.FORWARD, 1.0),), 4, {"host": False, "routing": False}, 1.0),
        (((TP, Phase.FORWARD, 1.0),), 4, {}, 0.0),
        (((TP, Phase.FORWARD, 1.0),), 4, {"routing": False}, 0.0),
        (((EP, Phase.FORWARD, 1.0), (TP, Phase.FORWARD, 1.0)), 4, {"routing": False}, 1.0),
        (((EP, Phase.FORWARD, 0.0),), 4, {"routing": False}, 0.0),
        (((EP, Phase.FORWARD, 1.0),), 4, {}, 0.0),
    ],
)
def test_a_device_waits_for_the_last_host_of_those_that_meet_or_for_one_that_must_see_the_routing(
    sent, num_ranks, flags, frac
):
    assert _waited_frac(calls(*sent, num_ranks=num_ranks), variants(**flags)) == pytest.approx([frac])


def test_communication_overlaps_where_its_axis_may_and_gathers_for_weight_gradients_always_do():
    rows = [
        (TP, Phase.FORWARD, 1.0),
        (TP, Phase.WEIGHT_GRAD, 1.0),
        (CP, Phase.WEIGHT_GRAD, 1.0),
        (DP, Phase.FORWARD, 1.0),
    ]
    assert overlaps(calls(*rows), variants()).tolist() == [[False, True, False, False]]
    assert overlaps(calls(*rows), variants(dp=True)).tolist() == [[False, True, False, True]]
    assert overlaps(calls(*rows), variants(tp=True, cp=True)).tolist() == [[True, True, True, False]]
    assert overlaps(calls(*rows, awaited=(1, 2)), variants(cp=True)).tolist() == [[False] * 4]


def test_seconds_are_summed_by_axis_and_direction_under_the_policies_that_call():
    made = calls(
        (TP, Phase.FORWARD, 1.0), (TP, Phase.INPUT_GRAD, 2.0), (TP, Phase.WEIGHT_GRAD, 4.0), (TP, Phase.RECOMPUTE, 8.0),
        (DP, Phase.FORWARD, 16.0), (DP, Phase.INPUT_GRAD, 32.0),
    )  # fmt: skip
    made.runs[3, 0] = False  # is not called under the first policy
    forward, backward = (dict(totals.rows) for totals in comm_totals(made, variants(dp=True)))
    waits, beside, [sent] = ROWS["blocking_s"], ROWS["overlappable_s"], ROWS["sent_bytes"]
    assert forward[waits[TP]].tolist() == [[1.0, 1.0]]
    assert forward[beside[DP]].tolist() == [[16.0, 16.0]]
    assert forward[sent].tolist() == [[1700.0, 1700.0]]
    assert backward[waits[TP]].tolist() == [[2.0, 10.0]]
    assert backward[beside[TP]].tolist() == [[4.0, 4.0]]
    assert backward[beside[DP]].tolist() == [[32.0, 32.0]]
    assert backward[sent].tolist() == [[3800.0, 4600.0]]
    assert [one.num_calls.tolist() for one in comm_totals(made, variants())] == [[[2.0, 2.0]], [[3.0, 4.0]]]


@pytest.mark.parametrize(("waited_frac", "compute_s", "host_s"), [(0.0, 10.0, 6.5), (1.0, 16.5, 0.0), (2.0, 23.0, 0.0)])
def test_each_call_takes_the_host_and_a_host_that_is_waited_for_is_compute(waited_frac, compute_s, host_s):
    """Five seconds of queueing and three calls of half a second."""
    for num_rows in (NUM_TIMED, NUM_ROWS):
        work = np.zeros((1, num_rows, 1, 1))
        work[0, COMPUTE], work[0, HOST] = 10.0, 5.0
        [row] = ROWS["sent_bytes"]
        totals = CommTotals(
            rows=((row, np.array([[7.0]])),), num_calls=np.array([[3.0]]), waited_frac=np.array([[waited_frac]])
        )
        add_communication(work, (totals,), 0.5)
        assert (work[0, COMPUTE, 0, 0], work[0, HOST, 0, 0]) == (compute_s, host_s)
        assert work[0, row, 0, 0] == 7.0
        assert work.sum() == compute_s + host_s + 7.0 + (compute_s - 10.0) * (num_rows == NUM_ROWS)  # once by limit


def test_ranks_that_share_a_group_are_taken_together_and_lone_ones_left_out():
    places = [placement(plan, CLUSTER.topology).data for plan in (Plan(data_parallel=16), Plan(tensor_parallel=16))]
    two = placement(Plan(data_parallel=2, tensor_parallel=8), CLUSTER.topology).data
    groups = (*places, two)
    found = [(group, rows.tolist()) for group, rows in by_group(groups, np.array([2, 0, 1, 2, 0, 2]))]
    assert found == [(groups[0], [1, 4]), (groups[2], [0, 3, 5])]
    assert [(group, rows.tolist()) for group, rows in by_group(groups, np.array([2]))] == [(groups[2], [0])]
    assert list(by_group(groups, np.array([1]))) == []
    assert list(by_group(groups, np.array([], dtype=np.int64))) == []


def test_no_payload_takes_no_time_and_a_call_pays_its_start_once():
    group = placement(Plan(data_parallel=16), CLUSTER.topology).data
    time_s, sent = timed("all-reduce", np.array([0.0, 16e6]), group, 0.8)
    assert time_s[0] == sent[0] == 0.0
    assert sent[1] == pytest.approx(2 * 15 / 16 * 16e6)
    overheads = collective_overheads(CLUSTER.chip.calibration)
    assert (overheads.link_frac, overheads.start_s) == (
        CLUSTER.chip.calibration.link_frac,
        CLUSTER.chip.calibration.exchange_s,
    )
    started_s, _ = timed("all-reduce", np.array([0.0, 16e6]), group, 0.8, start_s=overheads.start_s)
    assert started_s.tolist() == [0.0, time_s[1] + overheads.start_s]


def test_the_last_part_of_a_ring_hides_nothing():
    work = np.ones((2, NUM_ROWS, 3, 1))
    ways = cast(
        "CommVariants", SimpleNamespace(context_comm_type=np.array([0, 1, 1]), num_context_ranks=np.array([4, 4, 2]))
    )
    exclude_last_ring_part(work, ways)
    core = list(ROWS["core"])
    assert work[:, core].min(axis=(0, 1, 3)).tolist() == work[:, core].max(axis=(0, 1, 3)).tolist() == [1.0, 0.75, 0.5]
    others = [row for row in range(NUM_ROWS) if row not in core]
    assert (work[:, others] == 1.0).all()


def test_a_library_of_the_network_stands_for_its_links_and_has_no_start_beside():
    cluster = clusters["dgx-h100"].build(16)
    group = placement(Plan(data_parallel=16), cluster.topology).data
    sizes_bytes = np.array([0.0, 16e6])
    found = [
        timed("all-reduce", sizes_bytes, group, link_frac, start_s)[0]
        for link_frac, start_s in ((0.8, 0.0), (0.1, 1.0))
    ]
    assert found[0].tolist() == found[1].tolist() == [0.0, library_s("all-reduce", 16e6, group)]
    assert timed("all-reduce", sizes_bytes, group, 0.8, selection="least")[0][1] <= found[0][1]
