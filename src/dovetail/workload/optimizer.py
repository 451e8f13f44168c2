"""Numeric conventions of a training run: what is kept per parameter, in bytes, and what an update moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.optimizers import Optimizer, Update, optimizer_named, optimizers
from dovetail.workload.scaling_recipes import (
    DEFAULTS,
    OLD_SWITCH,
    ScalingRecipe,
    is_recipe,
    recipe_named,
    scaling_recipes,
)

MASTER_BYTES = 4.0  # master weights are fp32
# Tells a default from the same value given. It never stands in a value: those are complete when built.
_NOT_GIVEN: Any = None
_STORED = ("weights", "gradients", "moments", "loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtypes of a training run.

    Weights are kept as activations are by default, with an fp32 master copy unless they are fp32 themselves.
    So the defaults are mixed-precision Adam as Megatron-LM keeps it: bf16 weights, fp32 gradients, fp32 master
    weights and two fp32 moments, 18 bytes a parameter (Korthikanti et al. 2022).
    `has_persistent_gradients` says that gradient memory is held through the whole step (Megatron's main gradients,
    DDP buckets) and not given back between the update and the next backward pass. `has_compute_gradients` is how
    DeepSpeed's bf16 optimizer accumulates: bf16 gradients of the whole stage, then added to fp32 ones.
    """

    optimizer: str = "adam"  # an entry of `workload.optimizers`, by its name when built
    compute: str = "bf16"
    weights: str = ""  # not given: as activations are stored; filled in when built
    gradients: str = "fp32"
    moments: str = "fp32"
    loss: str = "fp32"  # of the probabilities kept for the loss gradient
    has_master_weights: bool = _NOT_GIVEN  # not given: where weights are narrower than fp32; filled in when built
    has_momentum: bool = True  # of optimizers whose momentum is optional: SGD
    has_persistent_gradients: bool = True
    recipe: str = ""  # of `workload.scaling_recipes`; not given: delayed for fp8, nvfp4 for fp4; none for wider ones
    has_unfused_accumulation: bool = (
        False  # gradients of a microbatch are written out, then added by a kernel of their own
    )
    has_autocast_weights: bool = (
        False  # weights are gathered as they are kept, and cast for every product that reads them
    )
    has_compute_gradients: bool = False  # gradients in the storage dtype are kept beside the accumulated ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", optimizer_named(self.optimizer).name)
        if is_recipe(self.compute) and not self.recipe:  # mxfp8 says both the dtype and how tensors get there
            object.__setattr__(self, "recipe", self.compute)
            object.__setattr__(self, "compute", recipe_named(self.compute).dtype)
        _require_dtype(self.compute, "compute")
        if self.compute == "int8":
            raise NotModelled("training in int8 is not modelled; compute in fp8, bf16, fp16, tf32 or fp32", "compute")
        self._fill_recipe()
        if not self.weights:
            object.__setattr__(self, "weights", self.storage)
        for label in _STORED:
            _require_stored(getattr(self, label), label)
        if self.has_master_weights is _NOT_GIVEN:
            object.__setattr__(self, "has_master_weights", self.weights != "fp32")
        self._check_agreement()

    def _fill_recipe(self) -> None:
        name = OLD_SWITCH.get(self.recipe, self.recipe) or DEFAULTS.get(self.compute, "")
        if not name:
            return
        recipe = recipe_named(name)
        if recipe.dtype != self.compute:
            message = f"the recipe {recipe.name} is for products in {recipe.dtype}; got compute: {self.compute}"
            raise InvalidInput(f"{message}; set compute: {recipe.dtype}, or leave recipe out", "recipe")
        object.__setattr__(self, "recipe", recipe.name)

    def _check_agreement(self) -> None:
        if self.has_master_weights and self.weights == "fp32":
            message = "fp32 weights are their own master copy"
            raise InvalidInput(f"{message}; set master_weights: false, or narrower weights", "has_master_weights")
        if not self.entry.is_momentum_optional and not self.has_momentum:
            without = " or ".join(name for name, each in optimizers.items() if each.is_momentum_optional)
            message = f"only {without} can go without momentum; {self.optimizer} always keeps its moments"
            raise InvalidInput(f"{message}; leave momentum out, or set optimizer: {without}", "has_momentum")
        if not self.entry.follows_moments and self.moments != "fp32":
            message = f"the state of {self.optimizer} has dtypes of its own; got moments in {self.moments}"
            raise InvalidInput(f"{message}, so leave moments out", "moments")

    @property
    def entry(self) -> Optimizer:
        """What the optimizer keeps, computes and sends."""
        return optimizers[self.optimizer]

    @property
    def scaling(self) -> ScalingRecipe | None:
        """How what products read is made narrow; nothing where they read it as it is stored."""
        return scaling_recipes[self.recipe] if self.recipe else None

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
        return self.weight_bytes if self.has_autocast_weights else min(self.weight_bytes, dtype_bytes(self.storage))

    @property
    def reduce_bytes(self) -> float:
        """Bytes a gradient takes on the wire: as it is accumulated."""
        return dtype_bytes(self.gradients)

    @property
    def optimizer_bytes(self) -> float:
        """Bytes of optimizer state per parameter, master weights included; of matrices see `matrix_optimizer_bytes`."""
        return self._state_bytes(self.entry.update)

    @property
    def matrix_optimizer_bytes(self) -> float:
        """As `optimizer_bytes`, of matrices with an update of their own; factors apart."""
        return self._state_bytes(self.entry.matrix_update or self.entry.update)

    @property
    def factor_bytes(self) -> float:
        """Bytes of state per row and per column of a matrix whose state is factored."""
        update = self.entry.matrix_update or self.entry.update
        factored = (state for state in update.states if state.is_factored)
        return sum(state.bytes_per_element(dtype_bytes(self.moments)) for state in factored)

    @property
    def update_bytes(self) -> float:
        """Bytes one update moves per parameter: gradient in, state in and out, weight out (and in, if no master)."""
        return self._moved_bytes(self.entry.update, self.optimizer_bytes)

    @property
    def matrix_update_bytes(self) -> float:
        """As `update_bytes`, of matrices with an update of their own; products and factors apart."""
        return self._moved_bytes(self.entry.matrix_update or self.entry.update, self.matrix_optimizer_bytes)

    def _state_bytes(self, update: Update) -> float:
        full = [state for state in update.states if not state.is_factored]
        moments_bytes = dtype_bytes(self.moments)
        kept_bytes = sum(state.bytes_per_element(moments_bytes) for state in full) if self.has_momentum else 0.0
        return kept_bytes + (MASTER_BYTES if self.has_master_weights else 0.0)

    def _moved_bytes(self, update: Update, state_bytes: float) -> float:
        weight_passes = 1 if self.has_master_weights else 2
        moved_bytes = self.reduce_bytes + 2 * state_bytes + weight_passes * self.weight_bytes
        return moved_bytes + update.scratch_bytes


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
