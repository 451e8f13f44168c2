"""Rematerialisation tensor by tensor, as in JAX: which tensors of a layer stay, go to the host, or are formed again.

A policy is given by name (an entry of `checkpoint_policies`), or as its tensors: `query_proj=offload,out_proj=device`.
Tensors have MaxText's names. What a policy does not name is formed again, but for a layer's input, which always stays
unless it is offloaded: `jax.checkpoint` keeps the arguments of what it wraps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry

DEVICE, OFFLOAD, REMAT = "device", "offload", "remat"
PLACES = (DEVICE, OFFLOAD, REMAT)
LAYER_INPUT = "decoder_layer_input"
# In the order in which a layer forms them. qkv_proj and mlpwi are the names of products that are taken as one.
TENSORS = (
    LAYER_INPUT,
    "query_wa_proj",
    "kv_wa_proj",
    "query_proj",
    "key_proj",
    "value_proj",
    "qkv_proj",
    "context",
    "out_proj",
    "mlpwi_0",
    "mlpwi_1",
    "mlpwi",
    "mlpwo",
)
_PARTS = {"qkv_proj": ("query_proj", "key_proj", "value_proj"), "mlpwi": ("mlpwi_0", "mlpwi_1")}
Places = tuple[tuple[str, str], ...]  # tensors, each with where it is between the passes; never REMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """Which tensors of a layer are kept, and where: DEVICE or OFFLOAD."""

    summary: str
    source: str
    tensors: Places = ()


checkpoint_policies: Registry[CheckpointPolicy] = Registry("checkpoint policy", __name__)


def is_by_tensor(policy: str) -> bool:
    """Whether `policy` is one of these: a name of the registry, or tensors with their places."""
    return "=" in policy or policy in checkpoint_policies


def canonical(policy: str) -> str:
    """Tensors with their places as they are kept in plans: in one order, none of them twice, without what is formed
    again. A name stays as it is.
    """
    if "=" not in policy:
        return policy
    kept = _parsed(policy)
    return ",".join(f"{tensor}={kept[tensor]}" for tensor in TENSORS if tensor in kept) or "nothing_saveable"


@lru_cache(maxsize=256)
def places_of(policy: str) -> dict[str, str]:
    """Where each tensor is that `policy` keeps; products that are taken as one stand by their parts."""
    tensors = _parsed(policy) if "=" in policy else dict(checkpoint_policies[policy].tensors)
    places: dict[str, str] = {}
    for tensor, place in tensors.items():
        places |= dict.fromkeys(_PARTS.get(tensor, (tensor,)), place)
    return places


def does_policy_offload(policy: str) -> bool:
    return is_by_tensor(policy) and OFFLOAD in places_of(policy).values()


def _parsed(policy: str) -> dict[str, str]:
    kept: dict[str, str] = {}
    for word in policy.split(","):
        tensor, _, place = (part.strip() for part in word.partition("="))
        if tensor not in TENSORS:
            hint = did_you_mean(tensor, TENSORS)
            raise InvalidInput(
                f"no tensor of a layer is named {tensor!r}{hint}; known are {', '.join(TENSORS)}", "recompute"
            )
        if place not in PLACES:
            raise InvalidInput(
                f"{tensor} is {' or '.join((', '.join(PLACES[:-1]), PLACES[-1]))}; got {place!r}", "recompute"
            )
        if kept.setdefault(tensor, place) != place:
            raise InvalidInput(f"{tensor} is given twice: {kept[tensor]} and {place}; keep one", "recompute")
    return {
        tensor: place for tensor, place in kept.items() if place != REMAT and (tensor, place) != (LAYER_INPUT, DEVICE)
    }
