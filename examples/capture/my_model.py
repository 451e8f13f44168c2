"""A decoder of one's own: attention and a mixture of experts in plain PyTorch, as nobody's catalogue has it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCAB, HIDDEN, HEADS, LAYERS = 32000, 2048, 16, 24
EXPERTS, CHOSEN, EXPERT_WIDTH = 16, 2, 4096
BATCH, SEQ = 2, 4096


class Attention(nn.Module):
    """Causal self-attention, queries, keys and values of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        q, k, v = self.qkv(x).view(batch, seq, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, seq, HIDDEN))


class Experts(nn.Module):
    """Each position goes through two of many feed-forward networks, which a router chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.empty(EXPERTS, HIDDEN, EXPERT_WIDTH))
        self.down = nn.Parameter(torch.empty(EXPERTS, EXPERT_WIDTH, HIDDEN))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, HIDDEN)
        weights, experts = self.router(rows).softmax(dim=-1).topk(CHOSEN, dim=-1)
        order = experts.flatten().argsort()
        counts = torch.histc(experts.flatten().int(), bins=EXPERTS, min=0, max=EXPERTS - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        sent = rows[order // CHOSEN]
        hidden = functional.gelu(functional.grouped_mm(sent, self.up, offs=ends))
        back = functional.grouped_mm(hidden, self.down, offs=ends) * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(rows).index_add_(0, order // CHOSEN, back).view_as(x)


class Layer(nn.Module):
    """Attention and experts, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(HIDDEN)
        self.attention = Attention()
        self.before_experts = nn.LayerNorm(HIDDEN)
        self.experts = Experts()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.experts(self.before_experts(x))


class Decoder(nn.Module):
    """Tokens to the loss of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def decoder() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, and what it is called with: sizes only, as `dovetail capture` gives neither of them memory."""
    tokens = torch.empty(BATCH, SEQ, dtype=torch.int64)
    return Decoder().to(torch.bfloat16), {"tokens": tokens, "labels": tokens.clone()}
