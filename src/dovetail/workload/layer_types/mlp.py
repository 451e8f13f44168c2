"""What a layer has behind its attention (Hugging Face's `mlp_layer_types`)."""

from __future__ import annotations

from dovetail.workload.layer_types import LayerType, layer_types


@layer_types.register("dense")
def dense() -> LayerType:
    """A feed-forward layer of `ffn_width`."""
    return LayerType(field="mlp_layer_types", replaces={"experts": None})


@layer_types.register("sparse")
def sparse() -> LayerType:
    """The mixture of `experts`."""
    return LayerType(field="mlp_layer_types", replaces={}, needs=("experts",))
