"""Multi-head latent attention: queries and key-values through low-rank projections (DeepSeek-V2, arXiv:2405.04434)."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, require_positive
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis
from dovetail.workload.layers import Heads, Sample, rotary, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Ranks and widths of latent attention; every head has its own key and value after the projection up."""

    query_rank: int  # 0: queries are projected directly
    kv_rank: int
    nope_width: int  # part of a head's key without positions
    rotary_width: int  # part with positions, shared by all heads
    value_width: int

    def __post_init__(self) -> None:
        require_positive(self, "kv_rank", "nope_width", "rotary_width", "value_width")
        if self.query_rank < 0:
            raise InvalidInput(f"query_rank must not be negative; got {self.query_rank}", "query_rank")

    def heads(self, num_heads: int) -> Heads:
        key_width = self.nope_width + self.rotary_width
        return Heads(num_heads=num_heads, num_kv_heads=num_heads, key_width=key_width, value_width=self.value_width)


def latent_qkv(
    build: BlockBuilder, sample: Sample, x: int, hidden: int, latent: LatentAttention, num_heads: int
) -> tuple[int, ...]:
    """Queries, and keys and values written out whole, as training needs them."""
    q = _queries(build, sample, x, hidden, latent, num_heads)
    rows, heads = sample.shared_tokens, latent.heads(num_heads)
    kv_cols = whole(latent.kv_rank + latent.rotary_width)
    down = build.linear(x, rows, whole(hidden), kv_cols, name="kv_down")
    rank = whole(latent.kv_rank)
    compressed = build.vector("rmsnorm", (down,), rows, rank, name="kv_norm", weight=rank)
    shared_key = rotary(build, sample, (down,), rows, whole(latent.rotary_width), name="rope_k")
    opened = build.collective("gather", compressed, sample.tokens, kv_cols, name="gather_kv")
    up_cols = (num_heads * (latent.nope_width + latent.value_width), Axis.TENSOR)
    kv = build.linear(opened, sample.tokens, rank, up_cols, name="kv_up")
    # every head's key is its own plain part beside the shared rotary part
    cols = (num_heads * (heads.key_width + heads.value_width), Axis.TENSOR)
    return q, build.vector("concat", (kv, shared_key), sample.tokens, cols, name="assemble_kv")


def _queries(build: BlockBuilder, sample: Sample, x: int, hidden: int, latent: LatentAttention, num_heads: int) -> int:
    heads, width = latent.heads(num_heads), whole(hidden)
    if latent.query_rank:
        width = whole(latent.query_rank)
        x = build.linear(x, sample.shared_tokens, whole(hidden), width, name="q_down")
        x = build.vector("rmsnorm", (x,), sample.shared_tokens, width, name="q_norm", weight=width)
    x = build.collective("gather", x, sample.tokens, width, name="gather_q")
    q = build.linear(x, sample.tokens, width, heads.query_cols, name="q_up" if latent.query_rank else "q")
    cols = (num_heads * latent.rotary_width, Axis.TENSOR)
    untouched_frac = heads.key_width / latent.rotary_width
    return rotary(build, sample, (q,), sample.tokens, cols, name="rope_q", output_frac=untouched_frac)
