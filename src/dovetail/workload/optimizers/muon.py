"""Muon: the momentum of a hidden layer's matrix, made orthogonal by Newton-Schulz; AdamW for everything else."""

from __future__ import annotations

from dovetail.workload.optimizers import (
    LaunchName,
    NotOffered,
    Optimizer,
    Product,
    State,
    Update,
    UpdateCollective,
    optimizers,
)
from dovetail.workload.optimizers.adam import ADAM_UPDATE

NUM_STEPS = 5  # of Newton-Schulz (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Megatron-LM's default)
BF16_BYTES = 2.0


def newton_schulz(rows: int, cols: int) -> tuple[Product, ...]:
    """X <- aX + (bA + cAA)X with A = XX^T, X lying with its shorter side first: 2 nm^2 + 2 m^3 + 2 nm^2 FLOP a step."""
    short, long = sorted((rows, cols))
    return (
        Product(m=short, n=short, k=long, num_runs=NUM_STEPS),
        Product(m=short, n=short, k=short, num_runs=NUM_STEPS, adds=True),
        Product(m=short, n=long, k=short, num_runs=NUM_STEPS, adds=True),
    )


optimizers.register("muon")(
    Optimizer(
        name="muon",
        summary="Muon: hidden matrices by their orthogonalised momentum, all else by AdamW",
        source="Jordan et al. 2024; Liu et al., Muon is Scalable for LLM Training, arXiv:2502.16982",
        update=ADAM_UPDATE,
        matrix_update=Update(
            operator="muon",
            flop_per_parameter=11.0,  # momentum 2, Nesterov 2, square and sum 2, scale 1, decay and step 4
            states=(State(name="momentum_buffer"),),
            # in bf16: written for the products, read for its norm, scaled in place, and what comes out read
            scratch_bytes=5 * BF16_BYTES,
            products=newton_schulz,
            # Distributed Muon (arXiv:2502.16982, algorithm 1): a rank gathers whole matrices in bf16 over the ranks
            # that share their state, and over tensor-parallel ones, each of which then computes the same products
            # (Megatron-LM's tp_mode duplicated). Its communication is at most 1.25 times AdamW's there.
            collectives=(
                UpdateCollective(collective="all-gather", over="data", carries="matrices", element_bytes=BF16_BYTES),
                UpdateCollective(collective="all-gather", over="tensor", carries="matrices", element_bytes=BF16_BYTES),
            ),
        ),
        launch={
            "megatron-lm": LaunchName(
                name="muon",
                sharded="dist_muon",
                arguments=(("--muon-num-ns-steps", str(NUM_STEPS)), ("--muon-tp-mode", "duplicated")),
                since="Megatron Core 0.16",
                source="megatron/core/optimizer/muon.py: dist_muon in place of the distributed optimizer",
            ),
            "megatron-bridge": LaunchName(
                name="muon",
                sharded="dist_muon",
                arguments=(("--muon-num-ns-steps", str(NUM_STEPS)), ("--muon-tp-mode", "duplicated")),
                since="Megatron Core 0.16",
                source="megatron/core/optimizer/muon.py: dist_muon in place of the distributed optimizer",
            ),
            "torchtitan": NotOffered(
                why="it updates with Adam or AdamW", source="torchtitan/components/optimizer.py, optimizer_classes"
            ),
            "fsdp2": NotOffered(
                why="its steps need whole matrices, and FSDP2 hands out shards", source="torch.optim.Muon, PyTorch 2.9"
            ),
            "maxtext": NotOffered(
                why="it updates with AdamW, Adam of Pax or SGD", source="MaxText/optimizers.py, opt_type"
            ),
            "deepspeed": LaunchName(name="muon", source="deepspeed/runtime/config.py, MUON_OPTIMIZER"),
            "megatron-deepspeed": NotOffered(
                why="it updates with Adam or SGD", source="Megatron-DeepSpeed, megatron/arguments.py, --optimizer"
            ),
        },
    )
)
