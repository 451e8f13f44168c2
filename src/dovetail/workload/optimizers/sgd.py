"""Stochastic gradient descent, with or without momentum."""

from __future__ import annotations

from dovetail.workload.optimizers import LaunchName, NotOffered, Optimizer, State, Update, optimizers

optimizers.register("sgd")(
    Optimizer(
        name="sgd",
        summary="stochastic gradient descent: one momentum, or none",
        source="torch.optim.SGD",
        update=Update(operator="sgd", flop_per_parameter=4.0, states=(State(name="momentum_buffer"),)),
        is_momentum_optional=True,
        launch={
            "megatron-lm": LaunchName(name="sgd", source="megatron/training/arguments.py, --optimizer"),
            "megatron-bridge": LaunchName(name="sgd", source="megatron/core/optimizer/optimizer_config.py, optimizer"),
            "torchtitan": NotOffered(
                why="it updates with Adam or AdamW", source="torchtitan/components/optimizer.py, optimizer_classes"
            ),
            "fsdp2": LaunchName(name="sgd", source="torch.optim.SGD, which one's own script builds"),
            "maxtext": LaunchName(name="sgd", source="MaxText/optimizers.py, opt_type"),
            "deepspeed": LaunchName(
                name="SGD", source="deepspeed/runtime/engine.py: any class of torch.optim goes by its name"
            ),
            "megatron-deepspeed": LaunchName(
                name="sgd", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
