"""Megatron-LM with Transformer Engine."""

from __future__ import annotations

from dovetail.workload.kernel_sets import KernelSet, kernel_sets

# Everything below is a default of Megatron-LM's arguments with --transformer-impl transformer_engine. The loss is fused
# with --cross-entropy-loss-fusion only, so it is the one in place. Bias, dropout and residual add are one kernel there
# (--no-bias-dropout-fusion turns it off); here dropout and add are two, which is the same without dropout.
kernel_sets.register("megatron-lm")(
    KernelSet(
        summary="Megatron-LM with Transformer Engine, at its default fusion options",
        source="Megatron-LM core, transformer/transformer_config.py and fusions/; training/arguments.py",
        framework="Megatron-LM",
        is_fused=True,
        loss="inplace_cross_entropy",
        pads_vocabulary=True,  # --make-vocab-size-divisible-by, 128 by default
        parts=(
            ("norm", "one kernel of Transformer Engine (TENorm, TELayerNormColumnParallelLinear)"),
            ("rotary", "one kernel (apply_rope_fusion; --no-rope-fusion turns it off)"),
            ("activation", "bias with SwiGLU, GEGLU or GELU in one kernel (bias_activation_fusion)"),
            (
                "softmax",
                "in attention: cuDNN's or flash attention (attention_backend auto); masked_softmax_fusion else",
            ),
            ("experts", "grouped products (--moe-grouped-gemm)"),
            ("cross-entropy", "fp32 logits, vocabulary-parallel, in place (tensor_parallel/cross_entropy.py)"),
            ("optimizer", "FusedAdam of Transformer Engine or Apex, many tensors a kernel (optimizer/__init__.py)"),
        ),
    )
)
