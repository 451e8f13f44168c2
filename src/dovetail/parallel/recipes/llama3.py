"""How Meta trained Llama 3 405B."""

from __future__ import annotations

from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import PlanEntry, plans

_SOURCE = "Grattafiori et al. 2024, arXiv:2407.21783, Table 4 and section 3.3.2"
# Section 3.3.2: one layer less on the first and on the last stage, so that the first chunk has only the embedding and
# the last only the output projection and the loss. With 126 layers over 16 stages that is one layer a chunk, 8 chunks
# a stage.
_NUM_STAGES, _NUM_CHUNKS_A_STAGE = 16, 8
_LAYERS_PER_CHUNK = (0, *[1] * (_NUM_STAGES * _NUM_CHUNKS_A_STAGE - 2), 0)


def _plan(context_parallel: int, data_parallel: int) -> Plan:
    """The published degrees; how memory was saved is our reading.

    The paper shards optimizer state, accumulates gradients in fp32 over microbatches before one reduce-scatter (ZeRO-1
    here), and fits without layer recompute by freeing tensors early in ways it does not name; recompute of norms
    and activations stands in for them.
    """
    return Plan(
        tensor_parallel=8,
        sequence_parallel=True,
        context_parallel=context_parallel,
        pipeline_parallel=_NUM_STAGES,
        interleave=_NUM_CHUNKS_A_STAGE,
        data_parallel=data_parallel,
        zero_stage=1,
        recompute=("norm-activation",),
        layers_per_stage=_LAYERS_PER_CHUNK,
        axis_order=("tp", "cp", "pp", "dp"),
    )


plans.register("llama3-405b-8k")(
    PlanEntry(
        plan=_plan(context_parallel=1, data_parallel=128),
        fills_data_parallel=True,
        summary="Llama 3 405B at 8,192 tokens: TP 8, PP 16, DP 128 on 16,384 H100 (DP 64 on 8,192)",
        source=_SOURCE,
    )
)
plans.register("llama3-405b-128k")(
    PlanEntry(
        plan=_plan(context_parallel=16, data_parallel=8),
        fills_data_parallel=True,
        summary="Llama 3 405B at 131,072 tokens: TP 8, CP 16, PP 16, DP 8 on 16,384 H100",
        source=_SOURCE,
    )
)
