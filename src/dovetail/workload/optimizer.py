"""Numeric conventions of a training run: what is kept per parameter, in bytes, and what an update moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.workload.operators import dtype_bytes

OPTIMIZERS = ("adam", "sgd")
# Tells a default from the same thing asked for. Nobody sees it in a value: those are complete when built.
_NOT_SAID: Any = None
_STORED = ("weights", "gradients", "moments", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtypes of a training run.

    Weights are kept as activations are unless said otherwise, with an fp32 master copy unless they are fp32 themselves.
    So the defaults are mixed-precision Adam as Megatron-LM keeps it: bf16 weights, fp32 gradients, fp32 master
    weights and two fp32 moments, 18 bytes a parameter (Korthikanti et al. 2022).
    `are_gradients_standing` says that gradient memory is held through the whole step (Megatron's main gradients,
    DDP buckets) and not given back between the update and the next backward pass. `has_compute_gradients` is how
    DeepSpeed's bf16 optimizer accumulates: bf16 gradients of the whole stage, then added to fp32 ones.
    """

    optimizer: str = "adam"
    compute: str = "bf16"
    weights: str = ""  # not said: as activations are stored; filled in when built
    gradients: str = "fp32"
    moments: str = "fp32"
    loss: str = "fp32"  # of the probabilities kept for the loss gradient
    has_master_weights: bool = _NOT_SAID  # not said: where weights are narrower than fp32; filled in when built
    has_momentum: bool = True  # SGD only
    are_gradients_standing: bool = True
    has_current_scales: bool = False  # 8-bit tensors are swept for their largest element before they are cast
    adds_apart: bool = False  # gradients of a microbatch are written out, then added by a kernel of their own
    casts_at_use: bool = False  # weights are gathered as they are kept, and cast for every product that reads them
    has_compute_gradients: bool = False  # gradients in the storage dtype are kept beside the accumulated ones

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise InvalidInput(
                f"no optimizer is named {self.optimizer!r}{did_you_mean(self.optimizer, OPTIMIZERS)}", "optimizer"
            )
        _require_dtype(self.compute, "compute")
        if self.compute == "int8":
            raise NotModelled("training in int8 is not modelled; compute in fp8, bf16, fp16, tf32 or fp32", "compute")
        if not self.weights:
            object.__setattr__(self, "weights", self.storage)
        for label in _STORED:
            _require_stored(getattr(self, label), label)
        if self.has_master_weights is _NOT_SAID:
            object.__setattr__(self, "has_master_weights", self.weights != "fp32")
        self._check_agreement()

    def _check_agreement(self) -> None:
        if self.has_master_weights and self.weights == "fp32":
            told = "fp32 weights are their own master copy"
            raise InvalidInput(f"{told}; say master_weights: false, or narrower weights", "has_master_weights")
        if self.optimizer != "sgd" and not self.has_momentum:
            told = f"only sgd can go without momentum; {self.optimizer} always keeps its moments"
            raise InvalidInput(f"{told}; leave momentum out, or say optimizer: sgd", "has_momentum")

    @property
    def storage(self) -> str:
        """Dtype activations are stored in: the compute dtype, or the wider one that fp8 and tf32 math goes with."""
        return {"fp8": "bf16", "fp4": "bf16", "tf32": "fp32"}.get(self.compute, self.compute)

    @property
    def weight_bytes(self) -> float:
        return dtype_bytes(self.weights)

    @property
    def gradient_bytes(self) -> float:
        return dtype_bytes(self.gradients) + (dtype_bytes(self.storage) if self.has_compute_gradients else 0.0)

    @property
    def gather_bytes(self) -> float:
        """Bytes a parameter takes when gathered for use: as products read it, or as it is kept if that is less."""
        return self.weight_bytes if self.casts_at_use else min(self.weight_bytes, dtype_bytes(self.storage))

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


def _require_dtype(name: str, label: str) -> None:
    try:
        dtype_bytes(name)
    except NotModelled as error:
        raise InvalidInput(error.message, label) from None


def _require_stored(name: str, label: str) -> None:
    """A dtype that tensors of a training run are kept in."""
    _require_dtype(name, label)
    if name == "tf32":
        raise InvalidInput(f"{label} cannot be tf32, which only products are taken in; in memory it is fp32", label)
    if name == "int8":
        raise NotModelled(f"{label} in int8 is not modelled; keep them in fp8, bf16, fp16 or fp32", label)
