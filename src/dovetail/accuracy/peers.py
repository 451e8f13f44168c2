"""What other predictors were measured to be off by, on the sets that we are compared on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Mean error of a predictor on the rows of some publishers: from `least_frac` to `most_frac`."""

    name: str
    what: str
    publishers: tuple[str, ...]
    least_frac: float
    most_frac: float


def _calculon(what: str, publishers: tuple[str, ...], least_frac: float, most_frac: float) -> Peer:
    """Calculon (Isaev et al., SC 2023) run outside of its own validation set; its rows may be others of the set."""
    return Peer(name="Calculon", what=what, publishers=publishers, least_frac=least_frac, most_frac=most_frac)


PEERS = (
    _calculon("vTrain, many nodes", ("vTrain, many nodes",), 0.15, 0.20),  # measured on 109 of its rows
    _calculon("BLOOM's tuning", ("BLOOM's tuning",), 0.27, 0.27),  # measured on 111 rows
    _calculon("NeMo, H100", ("NeMo 24.07",), 0.13, 0.18),
    _calculon("small models, one node", ("vTrain, one node",), 0.51, 0.51),  # measured on 360 rows
    _calculon("FSDP", ("llm-foundry (FSDP)", "TorchTitan (FSDP)"), 0.59, 1.39),
)
