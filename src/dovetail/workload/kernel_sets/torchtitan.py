"""TorchTitan with torch.compile for each layer."""

from __future__ import annotations

from dovetail.workload.kernel_sets import LAYERS, KernelSet, kernel_sets

# apply_compile compiles each TransformerBlock; the embedding, the last norm and the output projection are not in one.
# compile.components has model and loss by default, so the cast of logits to fp32 is a part of the loss's kernels.
# Without compile.enable TorchTitan runs what the set eager does.
kernel_sets.register("torchtitan")(
    KernelSet(
        summary="TorchTitan with compile.enable: layers and the loss compiled, the rest eager",
        source="TorchTitan 0.2, models/llama3/infra/parallelize.py, components/loss.py, config/job_config.py",
        framework="TorchTitan",
        is_fused=True,
        compiled=LAYERS,
        loss="fused_cross_entropy",
        stops_early=True,
        parts=(
            ("norm", "fused by Inductor in layers; nn.RMSNorm's kernels after the last one"),
            ("rotary", "fused by Inductor"),
            ("activation", "silu and product fused by Inductor"),
            ("softmax", "in attention: scaled_dot_product_attention's backends (models/attention.py)"),
            ("experts", "torch._grouped_mm (models/moe)"),
            ("cross-entropy", "compiled, logits cast to fp32 inside (compile.components: model, loss)"),
            ("optimizer", "torch.optim's fused AdamW (optimizer.implementation: fused)"),
        ),
    )
)
