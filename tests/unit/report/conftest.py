from __future__ import annotations

import pytest

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.figures import record_of, tables_of
from dovetail.report.goodput import Budget
from dovetail.report.outcome import outcome_figures
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


def evaluated(plan: Plan, *, model: str = "llama3-8b", global_batch: int = 64, seq: int = 0) -> Outcome | Infeasible:
    entry = models[model]()
    workload = Workload(model=entry, global_batch=global_batch, seq=seq or entry.seq)
    return evaluate(workload, clusters["dgx-h100"].build(plan.num_devices), plan)


def record(result: Outcome | Infeasible, name: str = "", *, num_tokens: float = 0.0) -> Record:
    return record_of(outcome_figures(result, name, budget=Budget(num_tokens=num_tokens)))


def tables(result: Outcome | Infeasible, name: str = "", *, num_tokens: float = 0.0) -> tuple[Table, ...]:
    return tables_of(outcome_figures(result, name, budget=Budget(num_tokens=num_tokens)))


@pytest.fixture(scope="session")
def outcome() -> Outcome:
    """A plan that fits and uses tensor, pipeline and data parallelism."""
    plan = Plan(
        tensor_parallel=2,
        sequence_parallel=True,
        pipeline_parallel=4,
        data_parallel=2,
        zero_stage=1,
        recompute=("selective",),
    )
    result = evaluated(plan)
    assert isinstance(result, Outcome)
    return result


@pytest.fixture(scope="session")
def infeasible() -> Infeasible:
    """Every device holds the whole of a model that is far too large."""
    result = evaluated(Plan(data_parallel=64), model="llama3-70b")
    assert isinstance(result, Infeasible)
    return result
