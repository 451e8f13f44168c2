"""The four models of Korthikanti et al. 2022: sequence parallelism and selective recompute on A100."""

from __future__ import annotations

from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import PlanEntry, plans

_SOURCE = "Korthikanti et al. 2022, arXiv:2205.05198, Tables 3 and 5"


def _entry(pipeline_parallel: int, interleave: int, microbatch: int, summary: str) -> PlanEntry:
    plan = Plan(
        tensor_parallel=8,
        sequence_parallel=True,
        pipeline_parallel=pipeline_parallel,
        interleave=interleave,
        microbatch=microbatch,
        recompute=("selective",),
    )
    return PlanEntry(plan=plan, fills_data_parallel=True, summary=summary, source=_SOURCE)


plans.register("megatron-22b")(_entry(1, 1, 4, "GPT 22B on 8 A100, global batch 4: tensor parallel 8"))
plans.register("megatron-175b")(_entry(8, 3, 1, "GPT-3 175B on 64 A100, global batch 64: TP 8, PP 8, interleave 3"))
plans.register("megatron-530b")(
    _entry(35, 3, 1, "MT-NLG 530B on 280 A100, global batch 280: TP 8, PP 35, interleave 3")
)
plans.register("megatron-1t")(_entry(64, 1, 1, "GPT 1T on 512 A100, global batch 512: TP 8, PP 64"))
