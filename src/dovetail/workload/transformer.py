"""Transformers of every family from one description: decoders, encoders, encoder-decoders, mixtures of experts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.experts import Experts, add_shared_expert, mixture
from dovetail.workload.graph import Axis, Block, Graph, Rule, RunLengths, run_lengths
from dovetail.workload.latent import LatentAttention, latent_qkv
from dovetail.workload.layer_types import layers_of, shape_of_layer
from dovetail.workload.layers import (
    NUM_LOSS_STATISTICS,
    Heads,
    Sample,
    attend,
    close_region,
    feed_forward,
    masked_token_transform,
    project_qkv,
    whole,
)
from dovetail.workload.shape_rules import check_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer's shape. Defaults are a Llama-like decoder; other families say where they differ."""

    name: str
    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_width: int
    ffn_width: int
    vocab: int
    norm: str = "rmsnorm"
    norm_has_bias: bool = False
    num_norms: int = 2  # norms a layer; 1 when parallel branches share it, 4 with one after each branch too
    activation: str = "silu_mul"
    qkv_bias: bool = False
    output_bias: bool = False  # of the attention output projection
    ffn_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    is_parallel: bool = False  # attention and feed-forward side by side
    is_causal: bool = True
    window: int = 0  # keys a causal query sees; 0: all before it; of layer_types, in those with sliding_attention
    layer_types: tuple[tuple[str, int], ...] = ()  # attention by layer: types and how many in a row, from the top again
    mlp_layer_types: tuple[tuple[str, int], ...] = ()  # dense or sparse by layer; empty: as num_dense_layers says
    has_attention_sinks: bool = False  # a learnt logit a head, in every softmax beside the scores
    has_rope: bool = True
    rotary_frac: float = 1.0  # part of a key that turns with its position
    has_dropout: bool = False  # after the embedding and before every residual add
    has_attention_dropout: bool = False
    has_ffn_dropout: bool = False  # between the two products of a feed-forward
    is_tied: bool = False  # the output projection is the input embedding
    has_final_norm: bool = True
    has_embedding_norm: bool = False
    num_positions: int = 0  # learnt position embeddings
    num_token_types: int = 0
    embedding_width: int = 0  # when it differs from hidden, with projections in and out
    num_relative_buckets: int = 0  # learnt relative position biases a head, once a stack (T5)
    num_encoder_layers: int = 0  # above 0: an encoder before the decoder, whose layers attend to its output
    embedding_kinds: tuple[str, ...] = ()  # further element-wise operators: on the embedding
    score_kinds: tuple[str, ...] = ()  # on attention scores before the softmax
    head_kinds: tuple[str, ...] = ()  # on what goes into the output projection
    logit_kinds: tuple[str, ...] = ()  # on what comes out of it
    head: str = "lm"  # lm, mlm (BERT's masked-token and next-sentence heads)
    experts: Experts | None = None
    num_dense_layers: int = 0  # with experts: first layers that have a plain feed-forward
    latent: LatentAttention | None = None

    def __post_init__(self) -> None:
        check_shape(self)

    @property
    def heads(self) -> Heads:
        if self.latent is not None:
            return self.latent.heads(self.num_heads)
        width, num_kv_heads = self.head_width, self.num_kv_heads
        return Heads(num_heads=self.num_heads, num_kv_heads=num_kv_heads, key_width=width, value_width=width)

    @property
    def _dropout(self) -> tuple[str, ...]:
        return ("dropout",) if self.has_dropout else ()

    def forward(self, sample: Sample) -> Graph:
        if self.num_positions and sample.seq > self.num_positions:
            raise InvalidInput(
                f"seq={sample.seq} exceeds the {self.num_positions} positions {self.name} has learnt", "seq"
            )
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=sample.seq,
            dtype=sample.dtype,
            blocks=tuple(self._blocks(sample)),
            rules=tuple(self._rules(sample)),
            num_kv_heads=self.heads.num_kv_heads,
            choice=None if self.experts is None else self.experts.choice,
            layer_pattern=self._layer_pattern,
        )

    @property
    def num_expert_layers(self) -> int:
        if self.experts is None:
            return 0
        if self.mlp_layer_types:
            return sum("sparse" in types for types in layers_of(self))
        return self.num_layers - self.num_dense_layers

    @property
    def _layer_pattern(self) -> RunLengths:
        """The order of layers by kind, where kinds are interleaved."""
        layers = layers_of(self)
        kinds = list(dict.fromkeys(layers))
        runs = run_lengths(kinds.index(types) for types in layers)
        return runs if len(runs) > len(kinds) else ()

    def _rules(self, sample: Sample) -> list[Rule]:
        rules = [
            Rule(axis=Axis.TENSOR, label="num_heads", count=self.num_heads),
            Rule(axis=Axis.SEQUENCE, label="seq", count=sample.seq),
            Rule(axis=Axis.CONTEXT, label="seq", count=sample.seq),
            Rule(axis=Axis.HEADS, label="num_heads", count=self.num_heads),
            Rule(axis=Axis.HEADS, label="num_kv_heads", count=self.heads.num_kv_heads),
        ]
        if self.num_expert_layers < self.num_layers:
            rules.append(Rule(axis=Axis.TENSOR, label="ffn_width", count=self.ffn_width))
        if self.experts is not None:
            rules.append(Rule(axis=Axis.EXPERT, label="num_experts", count=self.experts.num_experts))
            rules.append(Rule(axis=Axis.EXPERT_TENSOR, label="expert width", count=self.experts.width))
            if self.experts.shared_width:
                rules.append(Rule(axis=Axis.TENSOR, label="shared expert width", count=self.experts.shared_width))
        return rules

    def _blocks(self, sample: Sample) -> list[Block]:
        blocks = [self._embedding(sample)]
        if self.num_encoder_layers:
            encoder = replace(self, is_causal=False, num_encoder_layers=0)
            blocks.append(encoder._layer(sample, "encoder").block(repeat=self.num_encoder_layers))
            carried = 2 * sample.batch * sample.seq * self.hidden  # decoder stages hand the encoder's output on
            blocks.append(
                self._layer(sample, "decoder").block(repeat=self.num_layers, boundary_activation_elements=carried)
            )
        elif self.layer_types or self.mlp_layer_types:
            for types, repeat in Counter(layers_of(self)).items():  # in the order in which they come first
                name = "_".join((*types, "layer"))
                blocks.append(shape_of_layer(self, types)._layer(sample, name).block(repeat=repeat))
        elif self.experts is None:
            blocks.append(self._layer(sample, "layer").block(repeat=self.num_layers))
        else:
            if self.num_dense_layers:
                dense = replace(self, experts=None, num_dense_layers=0)
                blocks.append(dense._layer(sample, "dense_layer").block(repeat=self.num_dense_layers))
            blocks.append(self._layer(sample, "expert_layer").block(repeat=self.num_layers - self.num_dense_layers))
        return [*blocks, self._head(sample)]

    def _norm(self, build: BlockBuilder, sample: Sample, x: int, name: str) -> int:
        weight = whole((2 if self.norm_has_bias else 1) * self.hidden)
        if sample.has_wide_residual:
            x = build.vector("cast", (x,), sample.shared_tokens, whole(self.hidden), name=f"{name}_narrow")
        return build.vector(self.norm, (x,), sample.shared_tokens, whole(self.hidden), name=name, weight=weight)

    def _each(self, build: BlockBuilder, sample: Sample, x: int, kinds: tuple[str, ...], name: str) -> int:
        """Element-wise operators one after the other over tokens by hidden."""
        for index, kind in enumerate(kinds):
            x = build.vector(kind, (x,), sample.shared_tokens, whole(self.hidden), name=f"{name}_{index}_{kind}")
        return x

    def _embedding(self, sample: Sample) -> Block:
        build = sample.builder("embedding", self.hidden, is_input_data=True)
        width = self.embedding_width or self.hidden
        words = (self.vocab, Axis.TENSOR)
        weight = (self.vocab * width, Axis.TENSOR)
        x = build.vector("embedding", (0,), sample.tokens, whole(width), weight=weight, table_rows=words)
        x = build.collective("reduce", x, sample.tokens, whole(width))
        if self.embedding_width:
            x = build.linear(x, sample.shared_tokens, whole(width), whole(self.hidden), name="project_in")
        for rows, name in ((self.num_positions, "positions"), (self.num_token_types, "token_types")):
            if rows:
                table, added_rows, cols = whole(rows * self.hidden), sample.shared_tokens, whole(self.hidden)
                held = whole(rows)
                added = build.vector("embedding", (0,), added_rows, cols, name=name, weight=table, table_rows=held)
                x = build.vector("add", (x, added), added_rows, cols, name=f"add_{name}")
        if self.has_embedding_norm:
            x = self._norm(build, sample, x, "embedding_norm")
        self._each(build, sample, x, (*self.embedding_kinds, *self._dropout), "embedding")
        if self.num_encoder_layers:  # the decoder looks its own tokens up in the same table
            x = build.vector("embedding", (0,), sample.tokens, whole(width), name="decoder_embedding", table_rows=words)
            x = build.collective("reduce", x, sample.tokens, whole(width), name="reduce_decoder_embedding")
            self._each(build, sample, x, (*self.embedding_kinds, *self._dropout), "decoder_embedding")
        if self.num_relative_buckets:
            # T5 keeps one table of relative position biases a stack; it is small and read with the scores
            num_tables = 2 if self.num_encoder_layers else 1
            build.rows[1].bias = whole(num_tables * self.num_relative_buckets * self.num_heads)
        return build.block(is_layer=False)

    def _layer(self, sample: Sample, name: str) -> BlockBuilder:
        build = sample.builder(name, self.hidden)
        if self.is_parallel:
            return self._parallel_layer(build, sample)
        x = self._norm(build, sample, 0, "norm_1")
        attended = self._self_attention(build, sample, x)
        residual = self._close(build, sample, attended, 0, "norm_after_attention")
        if self.num_encoder_layers:
            x = self._norm(build, sample, residual, "norm_cross")
            residual = self._close(build, sample, self._cross_attention(build, sample, x), residual, "")
        x = self._norm(build, sample, residual, "norm_2")
        if self.experts is None:
            self._close(build, sample, self._ffn(build, sample, x), residual, "norm_after_ffn")
            return build
        mixed = mixture(build, sample, x, self.hidden, self.experts, self.activation)
        if self.experts.shared_width:
            mixed = add_shared_expert(build, sample, x, mixed, self.hidden, self.experts, self.activation)
        build.vector("add", (residual, mixed), sample.shared_tokens, whole(self.hidden), name="add_ffn")
        return build

    def _parallel_layer(self, build: BlockBuilder, sample: Sample) -> BlockBuilder:
        """Attention beside feed-forward: their sum leaves one region, which branches that share a norm open once."""
        x = self._norm(build, sample, 0, "norm_1")
        opened = build.collective("gather", x, sample.tokens, whole(self.hidden))
        attended = self._self_attention(build, sample, opened, is_open=True)
        if self.num_norms == 2:
            x = self._norm(build, sample, 0, "norm_2")
            opened = build.collective("gather", x, sample.tokens, whole(self.hidden), name="gather_ffn")
        fed = self._ffn(build, sample, opened, is_open=True)
        summed = build.vector("add", (attended, fed), sample.tokens, whole(self.hidden), name="add_branches")
        close_region(build, sample, summed, self.hidden, 0, self.has_dropout)
        return build

    def _close(self, build: BlockBuilder, sample: Sample, x: int, residual: int, norm_name: str) -> int:
        """Ends a region; families with four norms a layer put one more before the residual add (Gemma 2)."""
        if self.num_norms == 4 and norm_name:
            x = build.collective("reduce", x, sample.tokens, whole(self.hidden))
            x = self._norm(build, sample, x, norm_name)
            return build.vector("add", (residual, x), sample.shared_tokens, whole(self.hidden))
        return close_region(build, sample, x, self.hidden, residual, self.has_dropout)

    def _self_attention(self, build: BlockBuilder, sample: Sample, x: int, *, is_open: bool = False) -> int:
        width, output_cols = whole(self.hidden), self.heads.output_cols
        if self.latent is not None:
            qkv = latent_qkv(build, sample, x, self.hidden, self.latent, self.num_heads)
        else:
            x = x if is_open else build.collective("gather", x, sample.tokens, width)
            qkv = project_qkv(
                build,
                sample,
                x,
                self.hidden,
                self.heads,
                has_bias=self.qkv_bias,
                has_rope=self.has_rope,
                norm=self.norm if self.qk_norm else "",
                rotary_frac=self.rotary_frac,
            )
        x = attend(
            build,
            sample,
            qkv,
            self.heads,
            keys=sample.seq,
            is_causal=self.is_causal,
            has_dropout=self.has_attention_dropout,
            window=self.window,
            score_kinds=self.score_kinds,
            has_sinks=self.has_attention_sinks,
        )
        return build.linear(x, sample.tokens, output_cols, width, name="attention_out", bias=self.output_bias)

    def _cross_attention(self, build: BlockBuilder, sample: Sample, x: int) -> int:
        """Queries from the decoder, keys and values from the encoder's output, here of the same length."""
        heads, width, has_dropout = self.heads, whole(self.hidden), self.has_attention_dropout
        x = build.collective("gather", x, sample.tokens, width, name="gather_cross")
        q = build.linear(x, sample.tokens, width, heads.query_cols, name="cross_q", bias=self.qkv_bias)
        encoded = build.collective("gather", 0, sample.tokens, width, name="gather_encoded")
        kv_cols = (heads.key_cols[0] + heads.value_cols[0], Axis.KV)
        kv = build.linear(encoded, sample.tokens, width, kv_cols, name="cross_kv", bias=self.qkv_bias)
        x = attend(build, sample, (q, kv), heads, keys=sample.seq, is_causal=False, has_dropout=has_dropout)
        return build.linear(x, sample.tokens, heads.output_cols, width, name="cross_out", bias=self.output_bias)

    def _ffn(self, build: BlockBuilder, sample: Sample, x: int, *, is_open: bool = False) -> int:
        if not is_open:
            x = build.collective("gather", x, sample.tokens, whole(self.hidden), name="gather_ffn")
        width, has_bias, has_dropout = self.ffn_width, self.ffn_bias, self.has_ffn_dropout
        return feed_forward(
            build, sample, x, self.hidden, width, self.activation, has_bias=has_bias, has_dropout=has_dropout
        )

    def _head(self, sample: Sample) -> Block:
        build = sample.builder("head", self.hidden)
        x, width = 0, self.hidden
        if self.num_encoder_layers:  # the encoder's own final norm: once a step like this one, so it stands here
            x = self._each(build, sample, self._norm(build, sample, x, "encoder_norm"), self._dropout, "encoder")
        if self.has_final_norm:
            x = self._norm(build, sample, x, "final_norm")
        x = self._each(build, sample, x, self.head_kinds, "head")
        if self.head == "mlm":
            x = masked_token_transform(build, sample, x, self.hidden)
        if self.embedding_width:
            width = self.embedding_width
            x = build.linear(x, sample.shared_tokens, whole(self.hidden), whole(width), name="project_out")
        x = build.collective("gather", x, sample.tokens, whole(width))
        vocab = (self.vocab, Axis.TENSOR)
        x = build.linear(x, sample.tokens, whole(width), vocab, name="lm_head", is_tied=self.is_tied)
        if self.head_bias:
            x = build.vector("bias_add", (x,), sample.tokens, vocab, name="head_bias", weight=vocab)
        for index, kind in enumerate(self.logit_kinds):
            x = build.vector(kind, (x,), sample.tokens, vocab, name=f"logit_{index}_{kind}")
        x = build.vector(sample.loss_kind, (x,), sample.tokens, vocab)
        build.collective("vocab_reduce", x, sample.tokens, whole(NUM_LOSS_STATISTICS))
        return build.block(is_layer=False)
