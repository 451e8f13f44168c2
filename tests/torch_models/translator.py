"""A translator in the manner of GNMT by hand: LSTMs on both sides, additive attention after the decoder's first."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.torch_models.built import BATCH, Build, Built, indices, on_meta

DROPOUT = 0.2  # of NVIDIA's and MLPerf's reference


class AdditiveAttention(nn.Module):
    """A normalised vector times the tanh of query plus key, for every pair of them (Bahdanau et al. 2014)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width))
        self.score_scale = nn.Parameter(torch.empty(1))
        self.sum_bias = nn.Parameter(torch.empty(width))

    def forward(self, decoded: Tensor, encoded: Tensor) -> Tensor:
        query = self.query(decoded) + self.sum_bias  # before there is one for every pair
        summed = query.unsqueeze(2) + self.key(encoded).unsqueeze(1)
        direction = self.score / self.score.norm() * self.score_scale
        shares = torch.matmul(torch.tanh(summed), direction).softmax(dim=-1)
        return torch.bmm(shares, encoded)


class Encoder(nn.Module):
    """The first layer runs both ways; from the third on there are residuals."""

    def __init__(self, width: int, num_layers: int) -> None:
        super().__init__()
        both_ways = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        narrowing = nn.LSTM(2 * width, width, batch_first=True)
        rest = (nn.LSTM(width, width, batch_first=True) for _ in range(num_layers - 2))
        self.layers = nn.ModuleList([both_ways, narrowing, *rest])
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            y, _ = layer(self.dropout(x))
            x = y + x if index > 1 else y
        return x


class Decoder(nn.Module):
    """The first layer attends; all after it read what it attended to beside the layer before."""

    def __init__(self, width: int, num_layers: int) -> None:
        super().__init__()
        self.first = nn.LSTM(width, width, batch_first=True)
        self.attention = AdditiveAttention(width)
        self.layers = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(num_layers - 1))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, encoded: Tensor) -> Tensor:
        x, _ = self.first(self.dropout(x))
        attended = self.attention(x, encoded)
        for index, layer in enumerate(self.layers):
            y, _ = layer(self.dropout(torch.cat((x, attended), dim=-1)))
            x = y + x if index else y
        return x


class Translator(nn.Module):
    """One embedding for both languages."""

    def __init__(self, width: int, vocab: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.encoder = Encoder(width, num_layers)
        self.decoder = Decoder(width, num_layers)
        self.classifier = nn.Linear(width, vocab)

    def forward(self, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        encoded = self.encoder(self.embedding(source))
        logits = self.classifier(self.decoder(self.embedding(target), encoded))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _gnmt(*, batch: int = BATCH, seq: int = 0) -> Built:
    source = indices(batch, seq or 50)
    inputs = {"source": source, "target": source.clone(), "labels": source.clone()}
    return on_meta(lambda: Translator(1024, 32320, 4)), inputs


BUILDS: dict[str, Build] = {"gnmt": _gnmt}
