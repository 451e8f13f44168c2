"""Kernel sets, named by a workload's `kernels`: which operators run as one kernel each, and what the host queues.

General sets and those of training frameworks. A framework's own set is what its default options run; each entry names
the options and files that it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.registry import Registry, holding

NOTHING, LAYERS, EVERYTHING, BUT_EXPERTS = COMPILED_PARTS = ("nothing", "layers", "everything", "all but experts")
EXPERT_KINDS = frozenset({"permute", "unpermute", "expert_linear", "silu_mul", "gelu_mul", "clamped_silu_mul"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """How the operators of a model become kernels. Defaults: each as eager PyTorch runs it.

    `framework` is whose kernels these are, as people write it; empty for a general set.
    `layers_of` is whose layers they are, where those are not the framework's own.
    `is_fused`: operators run as one kernel with the least passes over memory; those in `unfused` as eager PyTorch
    runs them all the same, where `rope` is four kernels: turn half of the columns, two products, their sum.
    `compiled`: the part of the model whose kernels a compiler makes, so that the host queues kernels and no operators.
    Where that is its layers, embedding and head run eagerly, save for the loss. Where it is all of a layer but its
    experts (EXPERT_KINDS), CUDA graphs hold attention and router, and the host queues the rest.
    `loss`: the loss operator, which keeps fp32 probabilities unless it is one kernel over the logits.
    `stops_early`: a second forward pass ends at the last tensor that a gradient needs.
    `pads_vocabulary`: the head has a multiple of 64 columns, so that its rows start where wide loads can.
    `parts` are the operators as the framework has them, by name, with the option or file that decides it.
    """

    summary: str
    source: str
    framework: str = ""
    layers_of: str = ""
    is_fused: bool = False
    unfused: frozenset[str] = frozenset()
    compiled: str = NOTHING
    loss: str = "cross_entropy"
    stops_early: bool = False
    pads_vocabulary: bool = False
    parts: tuple[tuple[str, str], ...] = ()

    def fuses(self, kind: str, *, is_layer: bool = True) -> bool:
        """Whether operator `kind` is one kernel with the least passes, in a layer or outside of all layers."""
        return self.is_fused and kind not in self.unfused and (is_layer or self.compiled != LAYERS)

    def compiles(self, kind: str, *, is_layer: bool = True) -> bool:
        """Whether a compiler makes the kernel of operator `kind`."""
        if self.compiled == BUT_EXPERTS:
            return is_layer and kind not in EXPERT_KINDS
        return self.compiled == EVERYTHING or (self.compiled == LAYERS and (is_layer or kind == self.loss))

    @property
    def adds_expert_bias(self) -> bool:
        """Whether the bias of an expert's last product is added expert by expert, with the weights of its rows.

        Transformer Engine's grouped products leave it to the layer (Megatron-LM core, moe/experts.py, _apply_bias).
        """
        return self.is_fused and self.compiled in (NOTHING, BUT_EXPERTS) and "expert_linear" not in self.unfused


kernel_sets: Registry[KernelSet] = Registry("kernel set", __name__, check=holding("kernel set", KernelSet))


def framework_sets() -> dict[str, KernelSet]:
    """The sets of frameworks by name."""
    return {name: found for name, found in kernel_sets.items() if found.framework}
