"""What the placement program is asked and what it answers: a chain of layers cut into stages, replicated over devices.

The problem is that of PHAZE (Wang et al., ICML 2024): stages of consecutive layers, one tensor-parallel degree for all,
1F1B, and as many copies of the pipeline as devices and microbatches allow. Layers come as runs of alike ones, so that
nothing here grows with their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.errors import InvalidInput, require_positive

RECOMPUTES = ("never", "always", "per-stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun:
    """`num_layers` alike layers in a row, for one microbatch on one device of a stage.

    `incoming_bytes` is what each takes from the layer before it; the first layer of all takes nothing.
    """

    num_layers: int
    forward_s: float
    backward_s: float
    weight_bytes: float
    activation_bytes: float  # everything one microbatch leaves behind for backward
    incoming_bytes: float
    is_sharded: bool

    def __post_init__(self) -> None:
        require_positive(self, "num_layers")
        for label in ("forward_s", "backward_s", "weight_bytes", "activation_bytes", "incoming_bytes"):
            value = getattr(self, label)
            if not (0 <= value < math.inf):
                raise InvalidInput(f"{label} of a run of layers must be finite and at least 0; got {value:g}", label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The chain at one tensor-parallel degree and one size of microbatch, of which a step has `num_microbatches`."""

    tensor_parallel: int
    num_microbatches: int
    runs: tuple[LayerRun, ...]

    def __post_init__(self) -> None:
        require_positive(self, "tensor_parallel", "num_microbatches")
        if not self.runs:
            raise InvalidInput("a chain to place needs at least one layer; got none", "runs")

    @property
    def num_layers(self) -> int:
        return sum(run.num_layers for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementProblem:
    """Variants to choose from, and what there is to place them on.

    A stage keeps `weight_copies` times its weights (gradients and optimizer state counted as copies). Recompute is
    `never`, `always` (on every stage but the last, which holds one microbatch) or chosen `per-stage`.
    """

    variants: tuple[Variant, ...]
    num_devices: int
    memory_bytes: float
    link_bytes_per_s: float
    weight_copies: int = 2
    recompute: str = "per-stage"

    def __post_init__(self) -> None:
        require_positive(self, "num_devices", "weight_copies")
        if not self.variants:
            raise InvalidInput("a placement needs at least one variant to choose from; got none", "variants")
        if self.recompute not in RECOMPUTES:
            raise InvalidInput(f"recompute is one of {', '.join(RECOMPUTES)}; got {self.recompute!r}", "recompute")
        if not self.memory_bytes > 0 or not self.link_bytes_per_s > 0:
            got = f"{self.memory_bytes:g} bytes and {self.link_bytes_per_s:g} bytes/s"
            raise InvalidInput(f"memory and link must be positive; got {got}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """Layers `first_layer` to `first_layer + num_layers - 1` on `num_devices` devices."""

    first_layer: int
    num_layers: int
    num_devices: int
    recomputes: bool
    load_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The best placement: which variant, how often it is copied, and its stages from first to last."""

    variant: Variant
    data_parallel: int
    stages: tuple[PlacedStage, ...]
    pace_s: float
    batch_s: float


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No cut of any variant fits the memory of the devices there are."""

    reason: str


def synced_s(data_parallel: int, first_stage_bytes: float, link_bytes_per_s: float) -> float:
    """Gradient exchange as PHAZE counts it: of the first stage alone. Source: its released code, commit fed7cde."""
    return 4 * (data_parallel - 1) / data_parallel * first_stage_bytes / link_bytes_per_s
