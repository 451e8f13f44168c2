"""8-bit Adam: both moments quantised block by block, a byte each."""

from __future__ import annotations

from dovetail.workload.optimizers import NotOffered, Optimizer, State, Update, optimizers

# bitsandbytes 0.43 and later: blockwise states share a scale among 256 elements, 2,048 before (Dettmers et al.).
# Source: bitsandbytes/optim/optimizer.py, init_state: `blocksize = 256`, absmax1 and absmax2 in fp32.
BLOCK = 256

optimizers.register("adam8bit")(
    Optimizer(
        name="adam8bit",
        summary="8-bit Adam: both moments quantised in blocks of 256",
        source="Dettmers et al., arXiv:2110.02861; bitsandbytes 0.43, Adam8bit",
        aliases=("adam-8bit", "adamw8bit"),
        update=Update(
            operator="adam8bit",
            # Adam's 12, and of each of two states a product to widen it and about 8 steps of a search for its code
            # (quantize_2D in bitsandbytes/csrc/kernels.cu halves a table of 256)
            flop_per_parameter=30.0,
            states=(
                State(name="state1", element_bytes=1.0, scale_block=BLOCK),
                State(name="state2", element_bytes=1.0, scale_block=BLOCK),
            ),
        ),
        launch={
            "megatron-lm": NotOffered(
                why="its moments are fp32, bf16, fp16 or fp8, none in blocks of 8 bits",
                source="megatron/training/arguments.py, --exp-avg-dtype",
            ),
            "megatron-bridge": NotOffered(
                why="its moments are fp32, bf16, fp16 or fp8, none in blocks of 8 bits",
                source="megatron/core/optimizer/optimizer_config.py, exp_avg_dtype",
            ),
            "torchtitan": NotOffered(
                why="it updates with Adam or AdamW", source="torchtitan/components/optimizer.py, optimizer_classes"
            ),
            "fsdp2": NotOffered(
                why="bitsandbytes has no optimizer for FSDP2's shards",
                source="bitsandbytes 0.45, optim/optimizer.py: tensors, not DTensor",
            ),
            "maxtext": NotOffered(
                why="it updates with AdamW, Adam of Pax or SGD", source="MaxText/optimizers.py, opt_type"
            ),
            "deepspeed": NotOffered(
                why="bitsandbytes' optimizer is handed to deepspeed.initialize by one's own script",
                source="deepspeed/runtime/config.py, DEEPSPEED_OPTIMIZERS",
            ),
            "megatron-deepspeed": NotOffered(
                why="it updates with Adam or SGD", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
