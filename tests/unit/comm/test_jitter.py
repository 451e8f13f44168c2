"""Ranks that come late to a collective: by hand, in steps and in `network`, and none where nothing is stated."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail as dv
from dovetail.comm.jitter import last_arrival_s, latest
from dovetail.errors import InvalidInput
from dovetail.files.cluster import load_cluster
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import Group, Span
from dovetail.parallel.plan import Plan, columns_of
from dovetail.step.communication import timed
from dovetail.step.step import step_times
from dovetail.units import MEBI, MICRO
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


def whole(cluster: Cluster) -> Group:
    return tuple(Span(dimension=one, num_ranks=one.num_devices) for one in cluster.topology.dimensions)


def jittered(name: str, num_devices: int, jitter_s: float) -> Cluster:
    cluster = clusters[name].build(num_devices)
    return replace(cluster, topology=cluster.topology.with_jitter(jitter_s))


@pytest.mark.parametrize(("num_ranks", "expected"), [(1, 0.0), (2, 0.564), (8, 1.424), (1024, 3.24)])
def test_the_last_of_many_is_the_expected_extreme_of_normal_variates(num_ranks, expected):
    assert latest(num_ranks) == pytest.approx(expected, abs=0.03)
    rng = np.random.default_rng(1)
    sampled = statistics.fmean(rng.standard_normal((4000, num_ranks)).max(axis=1)) if num_ranks > 1 else 0.0
    assert latest(num_ranks) == pytest.approx(sampled, abs=0.05)


@pytest.mark.parametrize("name", ["dgx-h100", "tpu-v5e-pod"])  # by a library, and by links alone
def test_a_collective_takes_as_much_longer_as_its_last_rank_is_late(name):
    calm, late = (whole(jittered(name, 64, jitter_s)) for jitter_s in (0.0, 20 * MICRO))
    sizes = np.array([0.0, MEBI])
    without, waited = (timed("all-gather", sizes, group, 0.8)[0] for group in (calm, late))
    assert waited[1] - without[1] == pytest.approx(20 * MICRO * latest(64), rel=1e-6)
    assert waited[0] == without[0] == 0.0  # nothing to send, nobody to wait for
    assert timed("point-to-point", sizes, late, 0.8)[0] == pytest.approx(timed("point-to-point", sizes, calm, 0.8)[0])


def test_no_cluster_of_the_catalogue_states_a_jitter():
    for _, entry in clusters.items():
        assert last_arrival_s(whole(entry.build(entry.default_devices))) == 0.0


@pytest.mark.parametrize("engine", ["", "closed", "events"])
def test_network_waits_for_the_last_rank_whatever_the_engine(tmp_path: Path, engine: str):
    file = tmp_path / "late.yaml"
    file.write_text("base: dgx-h100\ndevices: 8\njitter: 20 us\n", encoding="utf-8")
    options: dict[str, Any] = {"engine": engine} if engine else {}
    late, calm = (
        dv.network("all-gather", size="1MiB", topology=topology, **options).outcome[0]
        for topology in (str(file), "dgx-h100x8")
    )
    assert late.time_s - calm.time_s == pytest.approx(20 * MICRO * latest(8), rel=1e-6)
    assert late.jitter_s == pytest.approx(20 * MICRO * latest(8))
    assert late.closed_form_s[0] - calm.closed_form_s[0] == pytest.approx(late.jitter_s, rel=1e-6)


def test_a_step_waits_for_what_the_spec_or_the_option_states(tmp_path: Path):
    file = tmp_path / "late.yaml"
    file.write_text("{base: dgx-h100, devices: 8, jitter: 200 us}", encoding="utf-8")
    said = {"model": "bert-large", "plan": {"tensor_parallel": 8}, "global_batch": 8, "seq": 512}
    calm = dv.simulate(**said, cluster="dgx-h100", devices=8)  # type: ignore[arg-type]
    written = dv.simulate(**said, cluster=str(file))  # type: ignore[arg-type]
    optional = dv.simulate(**said, cluster="dgx-h100", devices=8, jitter="200us")  # type: ignore[arg-type]
    silenced = dv.simulate(**said, cluster=str(file), jitter=0.0)  # type: ignore[arg-type]
    assert written.record["step_s"] == pytest.approx(optional.record["step_s"], rel=1e-12)
    assert silenced.record["step_s"] == pytest.approx(calm.record["step_s"], rel=1e-12)
    assert written.record["step_s"] > calm.record["step_s"] * 1.05


@pytest.mark.parametrize("seq", [2048, 4096, 8192])
@pytest.mark.parametrize("num_devices", [256, 1024])
def test_more_jitter_never_makes_a_step_faster(num_devices, seq):
    """At the power limit, where gathers take about as long as the compute that they hide behind.

    A mean device that waits for what the slowest does not wait for must not cool by it, or its clock rises.
    """
    workload = Workload(model=models["llama3-8b"](), global_batch=2 * num_devices, seq=seq)
    graph, plan = workload.training_graph(), Plan(data_parallel=num_devices, zero_stage=3, recompute=("full",))
    steps_s = [
        float(step_times(graph, columns_of([plan]), cluster, workload.precision).step_s[0])
        for cluster in (jittered("dgx-h100", num_devices, us * MICRO) for us in (0, 1, 5, 10, 20, 40, 100, 300))
    ]
    assert all(later_s >= earlier_s * (1 - 1e-12) for earlier_s, later_s in pairwise(steps_s)), steps_s


def test_a_jitter_that_cannot_be_is_refused(tmp_path: Path):
    file = tmp_path / "late.yaml"
    file.write_text("{base: dgx-h100, devices: 8, jitter: -1 us}", encoding="utf-8")
    with pytest.raises(InvalidInput, match="jitter"):
        load_cluster(str(file))
    with pytest.raises(InvalidInput, match="soon"):
        dv.simulate(model="bert-large", cluster="dgx-h100", devices=8, plan="zero3", jitter="soon")
    with pytest.raises(InvalidInput, match="a time from 0 on"):
        dv.simulate(model="bert-large", cluster="dgx-h100", devices=8, plan="zero3", jitter=-1.0)
