"""TorchTitan: FSDP2, DTensor and torch's pipeline stages."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# Stages keep outputs until their backward pass and allocate what they receive, forward and backward, for every
# microbatch beforehand (torch/distributed/pipelining/stage.py). With a pipeline FSDP does not reshard after forward and
# reduces gradients after the last microbatch only, summed in the reduce dtype (torchtitan parallelize_llama.py).
# DTensor's products save their input as they got it, gathered (torch/distributed/tensor/parallel/style.py).
# The loss over a cut vocabulary adds exp(x) to a mask and scales the sum, each out of place
# (torch/distributed/tensor/parallel/loss.py): one copy more than the loss over whole rows.
# FSDP2 copies parameters out of what it gathers and gradients into what it reduces, once for each collective
# (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: split_with_sizes_copy, chunk_cat).
frameworks.register("torchtitan")(
    Framework(
        summary="TorchTitan on FSDP2, DTensor and torch's pipeline stages",
        source="PyTorch 2.6 torch/distributed; TorchTitan December 2024, parallelisms/parallelize_llama.py",
        keeps_stage_outputs=True,
        num_boundary_buffers_per_microbatch=2,
        gathers_stages_whole=True,
        keeps_gathered_inputs=True,
        num_split_loss_copies=1,
        copies_gathered=True,
        copies_reduced=True,
    )
)
