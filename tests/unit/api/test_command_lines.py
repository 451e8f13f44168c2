"""What a stranger types: refused in one line that says what it is called here, or how it is written."""

import pytest

from dovetail.api.planned import commands_of
from dovetail.api.requests.jobs import PlanRequest
from dovetail.cli import main


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("simulate --model llama3-8b --cluster h100 --gpus 64", "no such option: --gpus; here it is --devices"),
        ("simulate --model llama3-8b --cluster h100x64 --plan zero3 --eval", "here it is --forward-only"),
        ("simulate --model llama3-8b --cluster h100x64 --tensor-model-parallel-size 8", "here it is --tp"),
        (
            "simulate --model llama3-8b --cluster 64xh100 --plan ddp",
            "no cluster is named '64xh100'; write it as h100x64",
        ),
        ("simulate --model llama3-8b --cluster h100x64 --plan fsdp", "fully sharded data parallelism is zero3"),
        ("simulate --model llama3-8b --cluster h100x64", "--plan is missing; pass --plan auto for the best one"),
        ("simulate --model meta-llama/Llama-3-8B --cluster h100x64 --tp 8", "nothing is downloaded; name one that"),
        (
            "simulate --model llama3-8b --cluster h100x64 --tp 8 --plan tp=4",
            "--plan has tensor_parallel=4, and an option",
        ),
        ("sweep examples/llama3-70b-512xh100.yaml --plan.tp 2,4", "a key of a spec is varied by --over plan.tp=VALUES"),
        ("sweep --model llama3-8b --cluster h100x64 --over hbm.bandwidth=2TB/s", "did you mean chip.hbm.bandwidth"),
        ("simulate --model llama3-8b --cluster h100x64 --plan zero3 --price 2.5", "as in '2.5 $/h'"),
        (
            "simulate --model llama3-8b --cluster h100x64 --plan zero3 --forward-only --perfetto t.pftrace",
            "a timeline is of a training step; leave out --forward-only or --perfetto",
        ),
        ("plan --model llama3-8b --cluster h100x8 --lora 16", "no such option: --lora; here it is --lora-rank"),
        ("plan --model llama3-8b --cluster h100x8 --lora-rank 16 --lora-targets q,v", "did you mean q_proj"),
        (
            "plan --model mixtral-8x7b --cluster h100x8 --lora-rank 16",
            "pass --lora-targets q_proj,k_proj",
        ),
        ("plan --model llama3-8b --cluster h100x8 --rank-by p90", "did you mean 90%?"),
        ("plan --model llama3-8b --cluster h100x8 --fit-probability 0.99", "did you mean 99%?"),
        ("plan --model llama3-8b --cluster h100x8 --seq 8k", "got '8k'; write 8192 or 8000"),
        ("plan --model llama3-8b --cluster h100x8 --framework nemo", "here it is megatron-bridge"),
        ("plan --model llama3-8b --cluster h100x8 --max-memory 70GB", "here it is --headroom"),
        ("plan --model qwen3-30b --cluster h100x8", "others go by their config.json"),
        ("simulate --model llama3-8b --cluster h100x8 --tp 8 --gradient-checkpointing", "here it is --recompute full"),
        ("simulate --spec examples/llama3-70b-512xh100.yaml", "a spec file needs no option before it"),
        ("sweep --model llama3-8b --cluster h100x8 --plan zero3 --over workload.lora.targets=q_proj", "go with a rank"),
        ("network all-reduce --cluster h100x64 --size 1GB", "here it is --topology dgx-h100x64"),
        ("show H100", "specify which: h100-pcie, h100-sxm"),
    ],
)
def test_a_strangers_line_is_refused_in_one_helpful_line(line, told, capsys):
    assert main(line.split(" ")) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_commands_that_follow_a_plan_leave_out_the_choices_that_it_keeps():
    request = PlanRequest(model="llama3-8b", cluster="h100x64", tp="4,8", sp=True, tokens="15T", price="2.5 $/h")
    plan, simulate = commands_of(request, "", "", is_own=False)
    assert "--tp 4,8" in plan
    assert "--sp" in plan
    assert "--tp" not in simulate
    assert simulate.endswith("--tokens 15T --price '2.5 $/h' --plan plan.yaml")


def test_a_framework_that_cannot_run_the_best_plan_is_launched_with_its_own():
    request = PlanRequest(model="llama3-8b", cluster="h100x64")
    *_, plan, launch = commands_of(request, "megatron-lm", "best.yaml", is_own=True)
    assert plan.endswith("--framework megatron-lm --plan-file megatron-lm.yaml")
    assert launch.endswith("--plan megatron-lm.yaml --framework megatron-lm")
    *_, launch = commands_of(request, "torchtitan", "best.yaml", is_own=False)
    assert launch.endswith("--plan best.yaml --framework torchtitan")
