"""Numeric conventions of a training run: what is kept per parameter, in bytes, and what an update moves."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.workload.operators import dtype_bytes

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtypes of a training run.

    The defaults are mixed-precision Adam as Megatron-LM keeps it: bf16 weights, fp32 gradients, fp32 master
    weights and two fp32 moments, 18 bytes a parameter (Korthikanti et al. 2022).
    `are_gradients_standing` says that gradient memory is held through the whole step (Megatron's main gradients,
    DDP buckets) and not given back between the update and the next backward pass. `has_compute_gradients` is how
    DeepSpeed's bf16 optimizer accumulates: bf16 gradients of the whole stage, then added to fp32 ones.
    """

    optimizer: str = "adam"
    compute: str = "bf16"
    weights: str = "bf16"
    gradients: str = "fp32"
    moments: str = "fp32"
    loss: str = "fp32"  # of the probabilities kept for the loss gradient
    has_master_weights: bool = True
    has_momentum: bool = True  # SGD only
    are_gradients_standing: bool = True
    has_compute_gradients: bool = False  # gradients in the storage dtype are kept beside the accumulated ones

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise InvalidInput(
                f"no optimizer is named {self.optimizer!r}{did_you_mean(self.optimizer, OPTIMIZERS)}", "optimizer"
            )
        for label in ("compute", "weights", "gradients", "moments", "loss"):
            try:
                dtype_bytes(getattr(self, label))
            except Exception as error:
                raise InvalidInput(str(error), label) from None

    @property
    def storage(self) -> str:
        """Dtype activations are stored in: the compute dtype, or the wider one that 8-bit and tf32 math goes with."""
        return {"fp8": "bf16", "int8": "bf16", "tf32": "fp32"}.get(self.compute, self.compute)

    @property
    def weight_bytes(self) -> float:
        return dtype_bytes(self.weights)

    @property
    def gradient_bytes(self) -> float:
        return dtype_bytes(self.gradients) + (dtype_bytes(self.storage) if self.has_compute_gradients else 0.0)

    @property
    def gather_bytes(self) -> float:
        """Bytes a parameter takes when gathered for use: as products read it, or as it is kept if that is less."""
        return min(self.weight_bytes, dtype_bytes(self.storage))

    @property
    def reduce_bytes(self) -> float:
        """Bytes a gradient takes on the wire: as it is accumulated."""
        return dtype_bytes(self.gradients)

    @property
    def optimizer_bytes(self) -> float:
        """Bytes of optimizer state a parameter, master weights included."""
        num_moments = 2 if self.optimizer == "adam" else int(self.has_momentum)
        return num_moments * dtype_bytes(self.moments) + (4.0 if self.has_master_weights else 0.0)

    @property
    def update_bytes(self) -> float:
        """Bytes one update moves a parameter: gradient in, state in and out, weight out (and in, if no master)."""
        weight_passes = 1 if self.has_master_weights else 2
        return self.reduce_bytes + 2 * self.optimizer_bytes + weight_passes * self.weight_bytes
