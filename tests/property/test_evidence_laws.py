"""Laws of intervals: they hold the prediction, are finite, and no row turns them into nonsense."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dovetail.accuracy.evidence import MIN_ROWS, Class, evidence, half_width, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.hardware.cluster import OwnRuns
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CHIPS = ("a100-80gb-sxm", "h100-sxm", "b200", "mi300x", "mine")
WORKLOAD = Workload(model=models["gpt2-345m"](), global_batch=64, seq=1024)
CLUSTER = clusters["dgx-h100"].build(16)


@st.composite
def residuals(draw) -> Residual:
    pp = draw(st.sampled_from([1, 4]))
    return Residual(
        name="r",
        publisher=draw(st.sampled_from(["a", "b", "c"])),
        chip=draw(st.sampled_from(CHIPS)),
        num_devices=draw(st.integers(1, 20_000)),
        tensor_parallel=1,
        context_parallel=1,
        pipeline_parallel=pp,
        data_parallel=1,
        expert_parallel=1,
        zero_stage=0,
        is_mixture=draw(st.booleans()),
        precision="bf16",
        log_ratio=draw(st.floats(-2.0, 2.0)),
    )


ROWS = st.lists(residuals(), min_size=1, max_size=60)
JOBS = st.builds(
    Class,
    chip=st.sampled_from(CHIPS),
    num_devices=st.integers(1, 20_000),
    is_transformer=st.booleans(),
    is_mixture=st.booleans(),
    has_pipeline=st.booleans(),
)


@given(ROWS, st.floats(1e-6, 1e6), st.integers(0, 9), st.floats(0, 1))
def test_an_interval_holds_the_prediction_and_is_finite(rows, step_s, num_runs, spread_frac):
    own = OwnRuns(num_runs=num_runs, num_scales=1, spread_frac=spread_frac, fitted_on="x")
    cluster = type(CLUSTER)(
        name="c", chip=CLUSTER.chip, topology=CLUSTER.topology, sources=CLUSTER.sources, own_runs=own
    )
    found = interval_of(WORKLOAD, cluster, Plan(data_parallel=16), step_s, rows)
    assert 0 < found.lower_s <= step_s <= found.upper_s < math.inf
    assert found.num_rows >= 1
    assert found.sentence.startswith("90 % interval ")


@given(ROWS, JOBS)
def test_a_class_is_made_of_the_rows_given_and_is_large_enough_or_all(rows, job):
    found = evidence(job, rows)
    assert set(map(id, found.rows)) <= set(map(id, rows))
    assert len(found.rows) >= MIN_ROWS or len(found.rows) == len(rows)
    assert "nan" not in found.words


@given(ROWS, st.lists(JOBS, min_size=2, max_size=12))
def test_no_job_without_evidence_has_a_narrower_interval_than_one_with_it(rows, jobs):
    published = [replace(row, name=f"{copy}") for row in rows for copy in range(MIN_ROWS // 2)]
    found = [evidence(job, published) for job in jobs]
    with_evidence = [one.half_width for one in found if one.words.startswith("from ")]
    without = [one.half_width for one in found if not one.words.startswith("from ")]
    assert max(with_evidence, default=0.0) <= min(without, default=math.inf)


@given(ROWS)
def test_nine_tenths_of_equally_weighted_rows_are_inside(rows):
    alike = [row for row in rows if row.publisher == rows[0].publisher]
    bound = half_width(alike)
    assert sum(abs(row.log_ratio) <= bound for row in alike) >= min(0.9 * (len(alike) + 1), len(alike)) - 1e-9


@given(ROWS, st.integers(2, 5))
def test_the_same_evidence_again_never_widens(rows, times):
    assert half_width(rows * times) <= half_width(rows)
