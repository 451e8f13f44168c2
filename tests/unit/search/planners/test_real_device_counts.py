"""Device counts that real runs used nest: a search finds plans of their degrees there."""

from __future__ import annotations

import pytest

from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import nesting
from dovetail.parallel.plan import joined
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

# Catalogue cluster, devices, and degrees of tensor, pipeline and data parallelism.
RUNS = (
    ("gb200-nvl72", 2_496, (4, 16, 39)),  # MLPerf Training v5.0, Llama 3.1 405B
    ("dgx-h100", 11_616, (8, 12, 121)),  # MLPerf Training v4.0, GPT-3 175B on as many devices; degrees of our own
    ("dgx-a100", 384, (4, 12, 8)),  # BLOOM, arXiv:2211.05100, section 3.4
    ("dgx-a100", 2_240, (8, 35, 8)),  # MT-NLG 530B, arXiv:2201.11990: 280 devices a replica, 8 of them
)


@pytest.mark.parametrize(("name", "num_devices", "degrees"), RUNS)
def test_a_search_on_as_many_devices_as_a_real_run_finds_its_degrees(
    name: str, num_devices: int, degrees: tuple[int, int, int]
):
    tp, pp, dp = degrees
    assert tp * pp * dp == num_devices
    workload = Workload(model=models["gpt3-175b"](), global_batch=16 * dp, seq=2048)
    space = PlanSpace(tensor_parallel=(tp,), context_parallel=(1,), pipeline_parallel=(pp,), microbatch=(1,))
    found = list(batches(space, workload.training_graph(), num_devices))
    assert len(nesting(joined(found), clusters[name].build(num_devices).topology))
