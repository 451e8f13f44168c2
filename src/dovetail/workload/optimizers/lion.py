"""Lion: the sign of an average of gradients, of which one is kept."""

from __future__ import annotations

from dovetail.workload.optimizers import LaunchName, NotOffered, Optimizer, State, Update, optimizers

optimizers.register("lion")(
    Optimizer(
        name="lion",
        summary="Lion: steps by the sign of one momentum",
        source="Chen et al., arXiv:2302.06675, program 1: one momentum, half of AdamW's moments",
        update=Update(
            operator="lion",
            flop_per_parameter=9.0,  # program 1: two averages of 3, sign, decay and step of 1 each
            states=(State(name="exp_avg"),),
        ),
        launch={
            "megatron-lm": LaunchName(
                name="lion",
                since="its main branch after Megatron Core 0.16",
                source="megatron/training/arguments.py, --optimizer",
            ),
            "megatron-bridge": LaunchName(
                name="lion",
                since="its main branch after Megatron Core 0.16",
                source="megatron/core/optimizer/optimizer_config.py, optimizer",
            ),
            "torchtitan": NotOffered(
                why="it updates with Adam or AdamW", source="torchtitan/components/optimizer.py, optimizer_classes"
            ),
            "fsdp2": NotOffered(why="torch.optim has no Lion", source="PyTorch 2.9, torch/optim/__init__.py"),
            "maxtext": NotOffered(
                why="it updates with AdamW, Adam of Pax or SGD", source="MaxText/optimizers.py, opt_type"
            ),
            "deepspeed": LaunchName(name="lion", source="deepspeed/runtime/config.py, LION_OPTIMIZER"),
            "megatron-deepspeed": NotOffered(
                why="it updates with Adam or SGD", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
