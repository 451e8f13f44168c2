from __future__ import annotations

from dataclasses import dataclass

import pytest
import yaml

from dovetail.files.job import load_plan
from dovetail.files.plan_text import plan_text
from dovetail.files.value_formats import entries_of, yaml_lines
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Overlap, Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


def test_a_plan_file_is_taken_back(tmp_path):
    plan = Plan(tensor_parallel=2, data_parallel=4, overlap=Overlap(data=False), offload_activations_frac=0.1)
    file = tmp_path / "plan.yaml"
    file.write_text(plan_text(plan, "a\nname"), encoding="utf-8")
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192)
    assert load_plan(str(file), workload, clusters["dgx-h100"].build(8)) == plan


def test_a_quantity_is_written_whole_with_its_unit():
    @dataclass(frozen=True)
    class Later:
        wait_s: float = 0.1
        buffer_bytes: float = 2.0**30
        kept_frac: float = 1 / 3

    lines = dict(yaml.safe_load("\n".join(yaml_lines(entries_of(Later())))))
    assert lines == {"wait": "0.1 s", "buffer": "1073741824.0 B", "kept_frac": 1 / 3}


def test_a_value_that_cannot_be_written_is_our_mistake():
    @dataclass(frozen=True)
    class Later:
        what: object = 1j

    with pytest.raises(AssertionError, match="what: no way to write a complex"):
        entries_of(Later())
