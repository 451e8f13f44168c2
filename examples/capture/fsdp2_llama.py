"""Trains a small Llama with FSDP2, as one would on GPUs: torchrun --nproc-per-node 8 fsdp2_llama.py.

Its step without a GPU: dovetail capture examples/capture/fsdp2_llama.py --world-size 64 -- --layers 8
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812  the name everyone gives it
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Attention(nn.Module):
    """Grouped-query attention, without positions."""

    def __init__(self, width: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        self.head = width // num_heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, num_kv_heads * self.head, bias=False)
        self.wv = nn.Linear(width, num_kv_heads * self.head, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q, k, v = (w(x).view(batch, seq, -1, self.head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(batch, seq, -1))


class Block(nn.Module):
    """One layer: attention and a gated feed-forward part."""

    def __init__(self, width: int, num_heads: int, num_kv_heads: int, inner: int) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, num_heads, num_kv_heads)
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """A decoder in the shape of Llama 3."""

    def __init__(self, num_layers: int, width: int, num_heads: int, num_kv_heads: int, inner: int, vocab: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(width, num_heads, num_kv_heads, inner) for _ in range(num_layers))
        self.norm, self.output = nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--inner", type=int, default=14336)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()

    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("dp",))

    with torch.device("meta"):
        model = Llama(given.layers, given.width, given.heads, given.kv_heads, given.inner, given.vocab)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    for step in range(given.steps):
        tokens = torch.randint(0, given.vocab, (given.batch, given.seq + 1), device=device)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
