"""Kernel sets of no framework in particular."""

from __future__ import annotations

from dovetail.workload.kernel_sets import BUT_EXPERTS, EVERYTHING, KernelSet, kernel_sets

PROFILED = "kernels as PyTorch 2.11's profiler lists them on an H200 (cost/kernels.py)"

kernel_sets.register("eager")(
    KernelSet(
        summary="PyTorch, operator by operator; checkpointing stops early",
        source=f"{PROFILED}; torch.utils.checkpoint, set_checkpoint_early_stop",
        stops_early=True,
    )
)
kernel_sets.register("classic")(
    KernelSet(
        summary="PyTorch before 2.1, operator by operator; recompute runs whole layers",
        source=f"{PROFILED}; torch.utils.checkpoint of PyTorch 2.0",
    )
)
kernel_sets.register("fused")(
    KernelSet(
        summary="norms, gated activations and softmax are one kernel each; the loss is taken in place",
        source="models.csv of the H200; Megatron-LM core, tensor_parallel/cross_entropy.py",
        is_fused=True,
        loss="inplace_cross_entropy",
    )
)
kernel_sets.register("compiled")(
    KernelSet(
        summary="the whole step compiled: the loss is one kernel too, and the host queues kernels only",
        source="layers_compiled.csv and models.csv of the H200, torch.compile of PyTorch 2.11",
        is_fused=True,
        compiled=EVERYTHING,
        loss="fused_cross_entropy",
    )
)
kernel_sets.register("graphed-attention")(
    KernelSet(
        summary="as fused, with attention and router of each layer in CUDA graphs; the host queues experts alone",
        source="Megatron-LM core, transformer/cuda_graphs.py: --cuda-graph-scope attn moe_router moe_preprocess",
        is_fused=True,
        compiled=BUT_EXPERTS,
        loss="inplace_cross_entropy",
    )
)
