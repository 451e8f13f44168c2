"""Which keys a layer's queries see (Hugging Face's `layer_types`)."""

from __future__ import annotations

from dovetail.workload.layer_types import LayerType, layer_types


@layer_types.register("full_attention")
def full_attention() -> LayerType:
    """All keys, or all before the query where attention is causal."""
    return LayerType(field="layer_types", replaces={"window": 0})


@layer_types.register("sliding_attention")
def sliding_attention() -> LayerType:
    """The last `window` keys up to the query's own."""
    return LayerType(field="layer_types", replaces={}, needs=("window",))
