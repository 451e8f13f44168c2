"""The expert placements PHAZE is compared with, on 1,024 devices and a global batch of 4,096 sequences."""

from __future__ import annotations

from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import PlanEntry, plans

_SOURCE = "expert placements of the released PHAZE code (MIT licence, commit fed7cde)"


def _entry(model: str, pipeline_parallel: int, data_parallel: int, tensor_parallel: int) -> PlanEntry:
    plan = Plan(pipeline_parallel=pipeline_parallel, data_parallel=data_parallel, tensor_parallel=tensor_parallel)
    degrees = f"PP {pipeline_parallel}, DP {data_parallel}, TP {tensor_parallel}"
    summary = f"PHAZE's expert placement of {model} on {plan.num_devices:,} devices: {degrees}"
    return PlanEntry(plan=plan, fills_data_parallel=False, summary=summary, source=_SOURCE)


# 12 x 85 leaves 4 of 1,024 devices idle and 85 does not divide 4,096: take 1,020 devices and a batch of 4,080.
plans.register("phaze-opt-350m")(_entry("OPT-350M", 12, 85, 1))
plans.register("phaze-bert-large")(_entry("BERT-large", 8, 128, 1))
plans.register("phaze-gpt2-xl")(_entry("GPT2-XL", 32, 32, 1))
plans.register("phaze-llama2-7b")(_entry("Llama2-7B", 8, 128, 1))
plans.register("phaze-megatron-bert")(_entry("Megatron-BERT", 8, 128, 1))
plans.register("phaze-gpt2-2.5b")(_entry("GPT2 2.5B", 8, 32, 4))
plans.register("phaze-gpt2-8.3b")(_entry("GPT2 8.3B", 8, 16, 8))
plans.register("phaze-gpt3-175b")(_entry("GPT3-175B", 32, 8, 4))
