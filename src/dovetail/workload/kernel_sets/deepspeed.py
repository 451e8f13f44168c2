"""DeepSpeed: the layers of Megatron-DeepSpeed, and DeepSpeed's experts and optimizer."""

from __future__ import annotations

from dovetail.workload.kernel_sets import KernelSet, kernel_sets

# DeepSpeed trains the module that it is given: with a script of one's own, kernels are those of that code, which
# capture shows. These are the layers that its launcher's pretrain_gpt.py runs.
kernel_sets.register("deepspeed")(
    KernelSet(
        summary="Megatron-DeepSpeed's layers: norms, softmax and GELU fused, SwiGLU and rotary written out",
        source="Megatron-DeepSpeed main, megatron/model/__init__.py, transformer.py, rotary_pos_embedding.py",
        framework="DeepSpeed",
        layers_of="Megatron-DeepSpeed",
        is_fused=True,
        unfused=frozenset({"rope", "silu_mul", "gelu_mul", "expert_linear"}),
        loss="inplace_cross_entropy",
        pads_vocabulary=True,  # --make-vocab-size-divisible-by, 128 by default
        parts=(
            ("norm", "one kernel of Apex (MixedFusedLayerNorm, MixedFusedRMSNorm)"),
            ("rotary", "written out: half turned by cat, two products, a sum (rotary_pos_embedding.py)"),
            ("activation", "SwiGLU is silu and a product (transformer.py); bias and GELU are one (bias_gelu_fusion)"),
            ("softmax", "in flash attention (--use-flash-attn-v2); FusedScaleMaskSoftmax else"),
            ("experts", "one after another (deepspeed/moe/experts.py)"),
            ("cross-entropy", "fp32 logits, vocabulary-parallel, in place (core/tensor_parallel/cross_entropy.py)"),
            ("optimizer", "FusedAdam, many tensors a kernel (deepspeed/ops/adam/fused_adam.py)"),
        ),
    )
)
