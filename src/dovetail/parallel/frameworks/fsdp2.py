"""FSDP2 by Hugging Face accelerate."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# Layers are those of transformers, wrapped one by one in fully_shard; tensor parallelism is DTensor's, whose products
# save their input as they got it (torch/distributed/tensor/parallel/style.py), and so is the loss over a cut
# vocabulary (torch/distributed/tensor/parallel/loss.py).
# FSDP2 copies parameters out of what it gathers and gradients into what it reduces, once for each collective
# (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: split_with_sizes_copy, chunk_cat).
frameworks.register("fsdp2")(
    Framework(
        summary="FSDP2 by accelerate: fully_shard layer by layer, DTensor for tensor parallelism",
        source="accelerate 1.15, utils/fsdp_utils.py (fsdp2_prepare_model); PyTorch 2.6 torch/distributed",
        keeps_gathered_inputs=True,
        num_split_loss_copies=1,
        copies_gathered=True,
        copies_reduced=True,
    )
)
