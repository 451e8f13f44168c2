"""How evenly rows reach the experts of a mixture: a fact of a model, its data and how it is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.units import Amount

MIN_CAPACITY, MAX_CAPACITY = 0.1, 1024.0  # below, nine of ten are dropped; above is more than all rows of any mixture


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Rows that routing sends to the experts of one device, against the mean of all devices.

    `expert_imbalance` is what the most loaded device gets; it can get no more than all, and alone it gets the mean.
    `capacity_factor` is what an expert takes at most, others are dropped; 0: it takes all that come. Where it
    `pads_to_capacity`, every expert computes and is sent exactly its capacity, whatever was routed to it (GShard,
    Lepikhin et al. 2020, arXiv:2006.16668, section 2.2; Switch Transformer, Fedus et al. 2021, arXiv:2101.03961,
    section 2.2, equation 3; Megatron-LM's --moe-expert-capacity-factor and --moe-pad-expert-input-to-capacity).
    """

    expert_imbalance: float = 1.0
    capacity_factor: float = 0.0
    pads_to_capacity: bool = False

    def __post_init__(self) -> None:
        if not 1.0 <= self.expert_imbalance < math.inf:
            message = "expert_imbalance is the most loaded device against the mean, so at least 1; got"
            raise InvalidInput(f"{message} {self.expert_imbalance:g}", "expert_imbalance")
        if not 0.0 <= self.capacity_factor < math.inf:
            message = f"capacity_factor must be positive, or 0 for none; got {self.capacity_factor:g}"
            raise InvalidInput(message, "capacity_factor")
        if self.capacity_factor and not MIN_CAPACITY <= self.capacity_factor <= MAX_CAPACITY:
            message = f"capacity_factor must be {MIN_CAPACITY:g} to {MAX_CAPACITY:g} times the mean, or 0 for none"
            raise InvalidInput(f"{message}; got {self.capacity_factor:g}; 1 to 2 is usual", "capacity_factor")
        if self.pads_to_capacity and not self.capacity_factor:
            raise InvalidInput(
                "pads_to_capacity needs a capacity to pad to; give capacity_factor or leave pads_to_capacity out",
                "pads_to_capacity",
            )

    def most(self, num_devices: Amount) -> Amount:
        """Rows of the most loaded of `num_devices` that share the experts, against the mean of what was routed."""
        came = np.minimum(self.expert_imbalance, num_devices)
        if not self.capacity_factor:
            return came
        return np.minimum(np.where(self.pads_to_capacity, self.capacity_factor, came), self.capacity_factor)

    @property
    def mean(self) -> float:
        """Rows of a mean device. Without padding, of what overfull experts drop only what none has room for counts."""
        if not self.capacity_factor:
            return 1.0
        return self.capacity_factor if self.pads_to_capacity else min(1.0, self.capacity_factor)

    @property
    def kept_frac(self) -> float:
        """Of what was routed, what experts have room for: all, unless they take less than the mean."""
        return min(1.0, self.capacity_factor or 1.0)

    def dropped_frac(self, num_devices: int) -> float:
        """Of what was routed, what is dropped at least: of even routing all that is, else what is known of it.

        The most loaded of `num_devices` drops what it gets beyond the capacity; what others get is not said.
        """
        if not self.capacity_factor:
            return 0.0
        beyond = min(self.expert_imbalance, num_devices) - self.capacity_factor
        return max(1.0 - self.kept_frac, beyond / num_devices)


EVENLY = Routing()
