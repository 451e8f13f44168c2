"""Training frameworks, one file each: what is each one's own of the device memory and time that training takes."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What a framework keeps and copies on a device of its own accord. Defaults: nothing, in PyTorch.

    `aliases` are other names that it is read by, wherever a framework can be named.
    `has_placeholder_gradients`: one unused gradient of every shape of weight in its layers stays allocated.
    `keeps_stage_outputs`: what a stage hands on is held until that microbatch's backward pass.
    `num_boundary_buffers`: further tensors of that size that stand; `num_boundary_buffers_per_microbatch`: as many
    for every microbatch of a step.
    `bucket_elements`: of the buffers that gradients are reduced from and parameters gathered into.
    `widens_by_tensor`: gradients are widened one by one, then flattened, so both copies exist at once (ZeRO 0 only).
    `fragments_update_buffers`: what the update and the buckets need finds no hole among freed activations.
    `gathers_stages_whole`: under ZeRO-3 with a pipeline, parameters of a stage stay gathered for the whole step,
    and its gradients are summed whole.
    `keeps_gathered_inputs`: what sequence parallelism gathers is kept whole, where others keep parts and gather again.
    `num_split_loss_copies`: further copies, in the loss's dtype, of logits whose columns are on several devices.
    `has_static_buffers`: a compiler lays all buffers out beforehand: no allocator holds blocks in reserve, and there is
    neither a CUDA context nor NCCL's buffers.
    `gathers_by_tensor`: under ZeRO-3 weights are gathered one by one where they are used, and their gradients reduced
    one by one, not layer by layer.
    `keeps_gradients_as_weights`: gradients are reduced as products leave them, and kept in the dtype of their weights.
    `has_loss_gradients`: where the loss is one kernel, it leaves the logits' gradient beside them, not in their place.
    `copies_gathered`: under ZeRO-3 parameters are copied out of the buffer that they are gathered into, in both passes.
    `copies_reduced`: from ZeRO-2 on gradients are copied into the buffer that they are reduced from.
    """

    summary: str
    source: str
    aliases: tuple[str, ...] = ()
    has_placeholder_gradients: bool = False
    keeps_stage_outputs: bool = False
    num_boundary_buffers: int = 0
    num_boundary_buffers_per_microbatch: int = 0
    bucket_elements: int = 0
    widens_by_tensor: bool = False
    fragments_update_buffers: bool = False
    gathers_stages_whole: bool = False
    keeps_gathered_inputs: bool = False
    num_split_loss_copies: int = 0
    has_static_buffers: bool = False
    gathers_by_tensor: bool = False
    keeps_gradients_as_weights: bool = False
    has_loss_gradients: bool = False
    copies_gathered: bool = False
    copies_reduced: bool = False


frameworks: Registry[Framework] = Registry("framework", __name__)


def framework_name(said: str) -> str:
    """The one name of the framework that is called `said` in a spec, an option or a table, however it is capitalised.

    Raises `InvalidInput` where there is none.
    """
    name = said.lower()
    if name in frameworks:
        return name
    aliases = {alias: found for found, framework in frameworks.items() for alias in framework.aliases}
    if name not in aliases:
        known = frameworks.names()
        hint = did_you_mean(said, (*known, *aliases))
        raise InvalidInput(f"framework must be one of {', '.join(known)}; got {said!r}{hint}", "framework")
    return aliases[name]
