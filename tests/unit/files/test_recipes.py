"""Named plans say what was published, and cut the models they are for."""

from __future__ import annotations

import pytest

from dovetail.files.job import load_spec
from dovetail.parallel.recipes import plans


@pytest.mark.parametrize(("name", "entry"), list(plans.items()), ids=plans.names())
def test_every_named_plan_says_what_it_is_and_whence(name, entry):
    assert name == name.lower()
    assert entry.summary
    assert entry.summary[-1] != "."
    assert entry.source


@pytest.mark.parametrize(
    ("plan", "workload", "cluster", "data_parallel"),
    [
        ("ddp", "resnet-50", "{name: dgx-a100, devices: 8}", 8),
        ("zero1", "llama3-8b", "{name: dgx-h100, devices: 64}", 64),
        ("zero2", "llama3-8b", "{name: dgx-h100, devices: 64}", 64),
        ("zero3", "llama3-70b", "{name: dgx-h100, devices: 512}", 512),
        ("tensor-8", "llama3-8b", "{name: dgx-h100, devices: 64}", 8),
        (
            "llama3-405b-8k",
            "{model: llama3-405b, global_batch: 2048}",
            "{name: llama3-grandteton, devices: 16384}",
            128,
        ),
        ("llama3-405b-8k", "{model: llama3-405b, global_batch: 2048}", "{name: llama3-grandteton, devices: 8192}", 64),
        (
            "llama3-405b-128k",
            "{model: llama3-405b, global_batch: 128, seq: 131072}",
            "{name: llama3-grandteton, devices: 16384}",
            8,
        ),
        ("megatron-22b", "{model: megatron-22b, global_batch: 4}", "{name: selene, devices: 8}", 1),
        ("megatron-175b", "{model: megatron-175b, global_batch: 64}", "{name: selene, devices: 64}", 1),
        ("megatron-530b", "{model: megatron-530b, global_batch: 280}", "{name: selene, devices: 280}", 1),
        ("megatron-1t", "{model: megatron-1t, global_batch: 512}", "{name: selene, devices: 512}", 1),
        ("phaze-bert-large", "{model: bert-large, global_batch: 4096}", "phaze-flat-1024", 128),
        ("phaze-gpt2-xl", "{model: gpt2-1.5b, global_batch: 4096}", "phaze-flat-1024", 32),
        ("phaze-llama2-7b", "{model: llama2-7b, global_batch: 4096}", "phaze-flat-1024", 128),
        ("phaze-megatron-bert", "{model: megatron-bert-336m, global_batch: 4096}", "phaze-flat-1024", 128),
        ("phaze-gpt2-2.5b", "{model: gpt2-2.5b, global_batch: 4096}", "phaze-flat-1024", 32),
        ("phaze-gpt2-8.3b", "{model: gpt2-8.3b, global_batch: 4096}", "phaze-flat-1024", 16),
        ("phaze-gpt3-175b", "{model: gpt3-175b, global_batch: 4096}", "phaze-flat-1024", 8),
    ],
)
def test_a_named_plan_cuts_the_model_it_is_for(write, plan, workload, cluster, data_parallel):
    job = load_spec(write(f"workload: {workload}\ncluster: {cluster}\nplan: {plan}\n"))
    assert job.plan.data_parallel == data_parallel
    assert job.plan.num_devices == job.cluster.num_devices
