"""Adam and AdamW: two moments of every parameter."""

from __future__ import annotations

from dovetail.workload.optimizers import LaunchName, Optimizer, State, Update, optimizers

ADAM_UPDATE = Update(
    operator="adam",
    flop_per_parameter=12.0,  # two averages, two corrections, root, division, decay and step, each counted as one
    states=(State(name="exp_avg"), State(name="exp_avg_sq")),
)

optimizers.register("adam")(
    Optimizer(
        name="adam",
        summary="Adam or AdamW: first and second moment of every parameter",
        source="Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101",
        aliases=("adamw",),
        update=ADAM_UPDATE,
        launch={
            "megatron-lm": LaunchName(
                name="adam",
                source="megatron/training/arguments.py, --optimizer, --exp-avg-dtype and --optimizer-cpu-offload",
                can_narrow_moments=True,
                can_offload=True,
            ),
            "megatron-bridge": LaunchName(
                name="adam",
                source="megatron/core/optimizer/optimizer_config.py, optimizer and exp_avg_dtype",
                can_narrow_moments=True,
                can_offload=True,
            ),
            "torchtitan": LaunchName(name="AdamW", source="torchtitan/components/optimizer.py, optimizer.name"),
            "fsdp2": LaunchName(name="adamw_torch", source="torch.optim.AdamW, which one's own script builds"),
            "maxtext": LaunchName(name="adamw", source="MaxText/optimizers.py, opt_type", can_offload=True),
            "deepspeed": LaunchName(name="adam", source="deepspeed/runtime/config.py, ADAM_OPTIMIZER"),
            "megatron-deepspeed": LaunchName(
                name="adam", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
