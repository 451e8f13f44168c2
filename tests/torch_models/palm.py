"""PaLM by hand: attention beside feed-forward under one norm, one key-value head, SwiGLU, a tied head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.torch_models.built import BATCH, Build, Built, indices, on_meta

Turns = tuple[Tensor, Tensor]  # cosine and sine of the angle of each position and column


def _turned(x: Tensor, turns: Turns) -> Tensor:
    """Each half of a head's columns turned against the other by the angle of its position."""
    low, high = x.chunk(2, dim=-1)
    return x * turns[0] + torch.cat((-high, low), dim=-1) * turns[1]


class ParallelLayer(nn.Module):
    """One norm, then attention and feed-forward side by side, both added to what came in."""

    def __init__(self, hidden: int, num_heads: int, head_width: int, ffn_width: int) -> None:
        super().__init__()
        self.num_heads, self.head_width = num_heads, head_width
        self.norm = nn.LayerNorm(hidden, bias=False)
        self.query = nn.Linear(hidden, num_heads * head_width, bias=False)
        self.key_value = nn.Linear(hidden, 2 * head_width, bias=False)
        self.attention_out = nn.Linear(num_heads * head_width, hidden, bias=False)
        self.gate = nn.Linear(hidden, ffn_width, bias=False)
        self.up = nn.Linear(hidden, ffn_width, bias=False)
        self.down = nn.Linear(ffn_width, hidden, bias=False)

    def forward(self, x: Tensor, turns: Turns) -> Tensor:
        y = self.norm(x)
        attended = self.attended(y, turns)
        fed = self.down(functional.silu(self.gate(y)) * self.up(y))
        return x + (attended + fed)

    def attended(self, x: Tensor, turns: Turns) -> Tensor:
        batch, seq, _ = x.shape
        query = self.query(x).view(batch, seq, self.num_heads, self.head_width).transpose(1, 2)
        key, value = self.key_value(x).unsqueeze(1).chunk(2, dim=-1)
        y = functional.scaled_dot_product_attention(
            _turned(query, turns), _turned(key, turns), value, is_causal=True, enable_gqa=True
        )
        return self.attention_out(y.transpose(1, 2).reshape(batch, seq, -1))


class Palm(nn.Module):
    def __init__(
        self, num_layers: int, hidden: int, num_heads: int, head_width: int, ffn_width: int, vocab: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(ParallelLayer(hidden, num_heads, head_width, ffn_width) for _ in range(num_layers))
        self.final_norm = nn.LayerNorm(hidden, bias=False)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.embedding.weight
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
        self.register_buffer("frequencies", 10000.0**-exponents, persistent=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        angles = torch.outer(positions, self.frequencies.float()).repeat(1, 2)
        x = self.embedding(tokens)
        turns = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, turns)
        logits = self.head(self.final_norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _palm_540b(*, batch: int = BATCH, seq: int = 0) -> Built:
    tokens = indices(batch, seq or 2048)
    return on_meta(lambda: Palm(118, 18432, 48, 256, 73728, 256_000)), {"tokens": tokens, "labels": tokens.clone()}


BUILDS: dict[str, Build] = {"palm-540b": _palm_540b}
