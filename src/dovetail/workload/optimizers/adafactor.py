"""Adafactor: of a matrix only the row and column means of squared gradients, and no momentum."""

from __future__ import annotations

from dataclasses import replace

from dovetail.workload.optimizers import (
    LaunchName,
    NotOffered,
    Optimizer,
    State,
    Update,
    UpdateCollective,
    optimizers,
)

FP32_BYTES = 4.0
_OF_VECTORS = Update(
    operator="adafactor",
    # algorithm 4: the square, two means, their product and root, the update and its square for clipping, and the step
    flop_per_parameter=12.0,
    states=(State(name="exp_avg_sq", element_bytes=FP32_BYTES),),
    scratch_bytes=2 * FP32_BYTES,  # the gradient twice more: for its means, and for the size of the clipped update
)

optimizers.register("adafactor")(
    Optimizer(
        name="adafactor",
        summary="Adafactor: row and column means of a matrix's second moment, no momentum",
        source="Shazeer and Stern, arXiv:1804.04235, algorithm 4 with beta1 = 0, as T5 was trained",
        update=_OF_VECTORS,
        matrix_update=replace(
            _OF_VECTORS,
            states=(State(name="exp_avg_sq_row_and_col", element_bytes=FP32_BYTES, is_factored=True),),
            # means of a matrix whose rows or columns lie on several ranks are summed over these
            collectives=(
                UpdateCollective(collective="all-reduce", over="tensor", carries="factors", element_bytes=FP32_BYTES),
                UpdateCollective(collective="all-reduce", over="data", carries="factors", element_bytes=FP32_BYTES),
            ),
        ),
        matrices="all",
        launch={
            "megatron-lm": NotOffered(
                why="it has no Adafactor", source="megatron/training/arguments.py, choices of --optimizer"
            ),
            "megatron-bridge": NotOffered(
                why="it has no Adafactor", source="megatron/core/optimizer/optimizer_config.py, optimizer"
            ),
            "torchtitan": NotOffered(
                why="it updates with Adam or AdamW", source="torchtitan/components/optimizer.py, optimizer_classes"
            ),
            "fsdp2": LaunchName(
                name="adafactor", source="torch.optim.Adafactor of PyTorch 2.5, which one's own script builds"
            ),
            "maxtext": NotOffered(
                why="it updates with AdamW, Adam of Pax or SGD", source="MaxText/optimizers.py, opt_type"
            ),
            "deepspeed": LaunchName(
                name="Adafactor",
                source="deepspeed/runtime/engine.py: any class of torch.optim goes by its name; PyTorch 2.5 has it",
            ),
            "megatron-deepspeed": NotOffered(
                why="it updates with Adam or SGD", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
