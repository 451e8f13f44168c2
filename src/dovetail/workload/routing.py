"""How evenly rows reach the experts of a mixture: a fact of a model, its data and how it is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.units import Amount

MIN_CAPACITY, MAX_CAPACITY = 0.1, 1024.0  # below, nine of ten are dropped; above is more than all rows of any mixture


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertChoice:
    """How many of its experts a token chooses, and of how many groups of them at most.

    With `num_groups` above 1 a token first chooses `num_groups_per_token` groups and then experts of these alone
    (DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2: groups lie on nodes, so that a token reaches few of them).
    """

    num_experts: int
    num_experts_per_token: int
    num_groups: int = 1
    num_groups_per_token: int = 1


@lru_cache(maxsize=4096)
def places_reached(choice: ExpertChoice, num_places: int) -> float:
    """Of `num_places` that hold equal shares of the experts, those that one token is bound for on average.

    Groups, and experts within them, are taken to be chosen at random, none of them twice. Experts lie in order, so that
    a place holds whole groups, or a group whole places.
    """
    experts, chosen = choice.num_experts, choice.num_experts_per_token
    groups, chosen_groups = choice.num_groups, choice.num_groups_per_token
    open_experts = experts * chosen_groups / groups  # of the groups that were chosen
    own = experts / num_places
    if num_places >= groups:
        missed = _none_chosen(open_experts, own, chosen)
        return num_places * chosen_groups / groups * (1.0 - missed)
    own_groups = groups / num_places
    reached = 0.0
    for count in range(1, chosen_groups + 1):  # of its own groups, how many were chosen
        likely = _hypergeometric(groups, own_groups, chosen_groups, count)
        if likely:
            reached += likely * (1.0 - _none_chosen(open_experts, count * experts / groups, chosen))
    return num_places * reached


def _none_chosen(num_all: float, num_own: float, num_chosen: int) -> float:
    """The probability that of `num_all` none of `num_own` is among `num_chosen`, all equally likely and none twice."""
    share = 1.0
    for taken in range(num_chosen):
        share *= max(0.0, num_all - num_own - taken) / (num_all - taken)
    return share


def _hypergeometric(num_all: int, num_own: float, num_chosen: int, count: int) -> float:
    own = round(num_own)
    if count > own or num_chosen - count > num_all - own:
        return 0.0
    return math.comb(own, count) * math.comb(num_all - own, num_chosen - count) / math.comb(num_all, num_chosen)


@lru_cache(maxsize=4096)
def expected_imbalance(choice: ExpertChoice, num_tokens: int, num_devices: int) -> float:
    """Rows of the most loaded of `num_devices` against the mean, where `num_tokens` choose experts at random.

    The largest of as many sums of independent choices, which are normal: their spread times Blom's expectation of the
    normal extreme (Blom 1958; the same order as Raab and Steger 1998, "Balls into bins"). Groups are not looked at:
    they make loads of devices vary more.
    """
    if num_devices == 1:
        return 1.0
    chosen, share = choice.num_experts_per_token, 1.0 / num_devices
    left_frac = (choice.num_experts - chosen) / max(1, choice.num_experts - 1)
    # of one device's rows against the mean of all, which is fixed: what one has more, the others have less
    variance = num_tokens * chosen * share * left_frac
    extreme = NormalDist().inv_cdf((num_devices - 0.375) / (num_devices + 0.25))
    return min(1.0 + extreme * math.sqrt(variance) / (num_tokens * chosen * share), float(num_devices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Rows that routing sends to the experts of one device, against the mean of all devices.

    `expert_imbalance` is what the most loaded device gets; it can get no more than all, and alone it gets the mean.
    Where tokens choose experts at random (`is_random`, as Megatron-LM's --moe-router-force-load-balancing has them),
    it is at least what is expected of so many tokens (`expected_imbalance`).
    `capacity_factor` is what an expert takes at most, others are dropped; 0: it takes all that come. Where it
    `pads_to_capacity`, every expert computes and is sent exactly its capacity, whatever was routed to it (GShard,
    Lepikhin et al. 2020, arXiv:2006.16668, section 2.2; Switch Transformer, Fedus et al. 2021, arXiv:2101.03961,
    section 2.2, equation 3; Megatron-LM's --moe-expert-capacity-factor and --moe-pad-expert-input-to-capacity).
    """

    expert_imbalance: float = 1.0
    is_random: bool = False
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

    def most(self, num_devices: Amount, random: Amount = 1.0) -> Amount:
        """Rows of the most loaded of `num_devices` that share the experts, against the mean of what was routed.

        `random` is what is expected of random choices.
        """
        came = np.minimum(self.expert_imbalance, num_devices)
        if self.is_random:
            came = np.maximum(came, random)
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

        The most loaded of `num_devices` drops what it gets beyond the capacity; what others get is not known.
        """
        if not self.capacity_factor:
            return 0.0
        beyond = min(self.expert_imbalance, num_devices) - self.capacity_factor
        return max(1.0 - self.kept_frac, beyond / num_devices)


EVENLY = Routing()
