"""DLRM by hand: a bag of embeddings a table beside a dense network, then a network over both."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.torch_models.built import BATCH, Build, Built, indices, numbers, on_meta


def _dense(widths: tuple[int, ...]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for in_width, width in pairwise(widths):
        parts += [nn.Linear(in_width, width, bias=False), nn.ReLU()]
    return nn.Sequential(*parts)


class Recommender(nn.Module):
    """One index a table and sample; features are joined by concatenation."""

    def __init__(self, bottom: tuple[int, ...], top: tuple[int, ...], num_tables: int, num_rows: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(num_rows, bottom[-1], mode="sum", sparse=True) for _ in range(num_tables)
        )
        self.bottom, self.top = _dense(bottom), _dense(top[:-1])
        self.click = nn.Linear(top[-2], top[-1], bias=False)

    def forward(self, features: Tensor, choices: Tensor, clicked: Tensor) -> Tensor:
        looked_up = [table(choices[:, index : index + 1]) for index, table in enumerate(self.tables)]
        joined = torch.cat([self.bottom(features), *looked_up], dim=1)
        return functional.binary_cross_entropy(torch.sigmoid(self.click(self.top(joined))), clicked)


def _dlrm(*, batch: int = BATCH, seq: int = 0) -> Built:
    bottom, top, num_tables = (1600, *(1024,) * 6, 64), (4160, *(2048,) * 11, 1), 64
    inputs = {
        "features": numbers(batch, bottom[0]), "choices": indices(batch, num_tables), "clicked": numbers(batch, 1)
    }  # fmt: skip
    return on_meta(lambda: Recommender(bottom, top, num_tables, 1_000_000)), inputs


BUILDS: dict[str, Build] = {"dlrm": _dlrm}
