"""Every framework says what it is and where its figures come from, and only ever adds memory."""

from __future__ import annotations

import pytest

from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.memory import moments
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

PLANS = (
    Plan(),
    Plan(tensor_parallel=4, sequence_parallel=True, data_parallel=2, zero_stage=1),
    Plan(pipeline_parallel=4, data_parallel=2, zero_stage=3, recompute=("full",)),
)


@pytest.mark.parametrize("name", frameworks.names())
@pytest.mark.parametrize("plan", PLANS, ids=("whole", "tensor", "pipeline"))
def test_a_framework_takes_no_less_than_training_needs(name: str, plan: Plan) -> None:
    assert frameworks[name].summary
    assert frameworks[name].source
    precision = Precision()
    graph = training_graph(models["llama3-8b"]().forward(Sample(batch=16, seq=1024, dtype="bf16")), precision)
    peaks = []
    for framework in ("plain", name):
        pieces = shard(graph, Plan(**{f: getattr(plan, f) for f in plan.__slots__} | {"framework": framework}))
        peaks.append(max(m.reserved_bytes for m in moments(pieces, 0, precision, 2.0)))
    assert peaks[1] >= peaks[0]
