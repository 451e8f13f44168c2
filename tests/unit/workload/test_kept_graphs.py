"""The graph of a workload is made once for whoever asks, and again once entries were withdrawn."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.registry import Owner, withdraw
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.workload import Workload


def workload(**changes: Any) -> Workload:
    return Workload(**{"model": models["bert-base"](), "global_batch": 4, "seq": 128, **changes})


def test_equal_workloads_have_one_graph():
    assert workload().training_graph() is workload().training_graph()


@pytest.mark.parametrize("changes", [{"global_batch": 8}, {"seq": 64}, {"precision": Precision(optimizer="sgd")}])
def test_another_workload_has_another_graph(changes):
    found, other = workload().training_graph(), workload(**changes).training_graph()
    assert other is not found
    sizes = [[(block.ops.extents.sum(), block.ops.kind.sum()) for block in graph.blocks] for graph in (found, other)]
    assert sizes[0] != sizes[1]


def test_a_graph_is_made_anew_once_entries_were_withdrawn():
    before = workload().training_graph()
    withdraw(Owner(path="", entries=[]))
    assert workload().training_graph() is not before


def test_a_refusal_is_not_kept():
    for _ in range(2):
        with pytest.raises(InvalidInput, match="has no experts"):
            workload(routing=Routing(expert_imbalance=2.0)).training_graph()
