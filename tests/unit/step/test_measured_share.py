"""What of a step was measured, worked out by hand: runs of one operator of a layer, and what the step has not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.hardware.clusters import clusters
from dovetail.hardware.measured import FORWARD, Measured, MeasuredOp
from dovetail.parallel.plan import Plan
from dovetail.step.measured_share import MeasuredShare, measured_share
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_LAYERS, HIDDEN, FFN = 12, 768, 3072  # of bert-base
BATCH, MICROBATCH, SEQ = 8, 2, 128
GRAPH = Workload(model=models["bert-base"](), global_batch=BATCH, seq=SEQ).training_graph()
UP = MeasuredOp(
    kind="linear", phase=FORWARD, dtype="bf16", extents=(1, MICROBATCH * SEQ, FFN, HIDDEN, 1), time_s=1.0
)  # the first product of the MLP: one in a layer


def share_of(*ops: MeasuredOp) -> MeasuredShare:
    cluster = clusters["dgx-h100"].build(1)
    measured = replace(cluster, chip=replace(cluster.chip, measured=Measured(source="trace", ops=ops)))
    return measured_share(GRAPH, Plan(microbatch=MICROBATCH), measured)


def test_one_operator_of_a_layer_runs_once_a_layer_and_microbatch():
    share = share_of(UP)
    assert share.num_measured == 1
    assert share.measured_s == NUM_LAYERS * BATCH / MICROBATCH * 1.0
    assert share.measured_frac == pytest.approx(share.measured_s / share.compute_s)
    assert share.measured_frac > 0.99  # a second of each is far longer than all else
    assert share.num_unused == 0
    assert share.sources == ("trace",)


def test_what_is_not_measured_is_named_the_longest_first_and_makes_up_the_rest():
    share = share_of(UP)
    assert share.num_operators == 1 + len(share.not_measured)
    times_s = [one.total_s for one in share.not_measured]
    assert times_s == sorted(times_s, reverse=True)
    assert sum(times_s) + share.measured_s == pytest.approx(share.compute_s)
    down = f"linear forward {MICROBATCH * SEQ}x{HIDDEN}x{FFN} bf16"
    assert [one.num_runs for one in share.not_measured if one.what == down] == [NUM_LAYERS * BATCH // MICROBATCH]


def test_an_operator_that_the_step_has_not_is_counted_as_unused():
    share = share_of(UP, replace(UP, extents=(1, 7, 11, 13, 1)))
    assert (share.num_measured, share.num_unused) == (1, 1)


def test_a_share_of_no_compute_is_none():
    assert MeasuredShare().measured_frac == 0.0
    assert MeasuredShare(compute_s=4.0, measured_s=3.0).measured_frac == 0.75
    assert measured_share(GRAPH, Plan(microbatch=MICROBATCH), clusters["dgx-h100"].build(1)) == MeasuredShare()
