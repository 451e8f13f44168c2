"""Recurrent translators: LSTM layers of an encoder and a decoder with additive attention between them.

A sample is a pair of sentences, both of `seq` positions. What does not depend on the step before runs over all
positions at once; the recurrent products are `seq` steps in a row. Only the batch is split, over data-parallel ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph, Rule
from dovetail.workload.layers import Sample, whole
from dovetail.workload.rows import Extent

NUM_GATES = 4  # input, forget, cell and output


def positions(sample: Sample) -> Extent:
    return sample.batch * sample.seq, Axis.DATA


def lstm(build: BlockBuilder, sample: Sample, x: int, in_width: int, hidden: int, *, name: str) -> int:
    """One LSTM over `seq` steps, with cuDNN's two biases a gate.

    The products with the inputs of all steps are one; those with the hidden state follow each other. The output holds
    hidden and cell states, both needed by the backward pass.
    """
    gates = whole(NUM_GATES * hidden)
    x = build.linear(x, positions(sample), whole(in_width), gates, name=f"{name}_input", bias=True)
    batch = (sample.batch, Axis.DATA)
    x = build.recurrent_linear(x, sample.seq, batch, whole(hidden), gates, name=f"{name}_recurrent", bias=True)
    return build.vector("lstm_cell", (x,), positions(sample), whole(hidden), name=f"{name}_cell", output_frac=2.0)


def additive_attention(build: BlockBuilder, sample: Sample, x: int, encoded: int, hidden: int) -> int:
    """Normalised Bahdanau attention: scores are a learnt vector times the tanh of query plus key, for every pair.

    The sums are written out whatever `sample.attention` says, as NVIDIA's reference does: flash kernels are for dot
    products.
    """
    rows, width, seq = positions(sample), whole(hidden), sample.seq
    query = build.linear(x, rows, width, width, name="query")
    key = build.linear(encoded, rows, width, width, name="key")
    pairs = (sample.batch * seq * seq, Axis.DATA)
    build.is_core = True
    # the bias of the sum and the one factor that normalises the score vector
    y = build.vector("pairwise_add", (query, key), pairs, width, name="sum", weight=whole(hidden + 1))
    y = build.vector("tanh", (y,), pairs, width)
    y = build.linear(y, pairs, width, whole(1), name="score")
    y = build.vector("softmax", (y,), rows, whole(seq))
    batch = (sample.batch, Axis.DATA)
    y = build.matmul((y, encoded), batch, whole(seq), width, whole(seq), name="context")
    build.is_core = False
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentTranslator:
    """GNMT v2: the first encoder layer runs both ways; the decoder's first layer attends for all that follow.

    Residuals from the third layer on, dropout before every layer, one embedding for both languages.
    """

    name: str
    hidden: int
    vocab: int
    num_encoder_layers: int
    num_decoder_layers: int

    def __post_init__(self) -> None:
        for label in ("num_encoder_layers", "num_decoder_layers"):
            if getattr(self, label) < 3:
                raise InvalidInput(
                    f"{label} must be at least 3, the first with a residual; got {getattr(self, label)}", label
                )

    def forward(self, sample: Sample) -> Graph:
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=sample.seq,
            dtype=sample.dtype,
            blocks=(
                self._embedding(sample),
                self._both_ways(sample),
                self._encoder_layer(sample, "encoder_2", 2 * self.hidden, has_residual=False).block(
                    boundary_activation_elements=self._elements(sample, 1)
                ),
                self._encoder_layer(sample, "encoder_3", self.hidden, has_residual=True).block(
                    repeat=self.num_encoder_layers - 2
                ),
                self._attending_layer(sample),
                self._decoder_layer(sample, "decoder_2", has_residual=False),
                self._decoder_layer(sample, "decoder_3", has_residual=True, repeat=self.num_decoder_layers - 2),
                self._head(sample),
            ),
            rules=tuple(
                Rule(axis=axis, label="parts of a recurrent step", count=1) for axis in (Axis.TENSOR, Axis.CONTEXT)
            ),
            num_kv_heads=1,
        )

    def _elements(self, sample: Sample, num_tensors: int) -> int:
        return num_tensors * sample.batch * sample.seq * self.hidden

    def _builder(self, sample: Sample, name: str, width: int, *, is_input_data: bool = False) -> BlockBuilder:
        return BlockBuilder(
            name,
            sample.dtype,
            positions(sample),
            whole(width),
            is_input_data=is_input_data,
            kernels=sample.kernel_set,
        )

    def _embedding(self, sample: Sample) -> Block:
        build = self._builder(sample, "embedding", 1, is_input_data=True)
        table = whole(self.vocab * self.hidden)
        held = whole(self.vocab)
        build.vector("embedding", (0,), positions(sample), whole(self.hidden), weight=table, table_rows=held)
        return build.block(is_layer=False, boundary_activation_elements=self._elements(sample, 1))

    def _both_ways(self, sample: Sample) -> Block:
        build = self._builder(sample, "encoder_1", self.hidden)
        rows, width = positions(sample), self.hidden
        x = build.vector("dropout", (0,), rows, whole(width))
        ahead = lstm(build, sample, x, width, width, name="forward")
        back = lstm(build, sample, x, width, width, name="backward")
        build.vector("concat", (ahead, back), rows, whole(2 * width))
        return build.block(boundary_activation_elements=self._elements(sample, 2))

    def _encoder_layer(self, sample: Sample, name: str, in_width: int, *, has_residual: bool) -> BlockBuilder:
        build = self._builder(sample, name, in_width)
        rows = positions(sample)
        x = build.vector("dropout", (0,), rows, whole(in_width))
        x = lstm(build, sample, x, in_width, self.hidden, name="lstm")
        if has_residual:
            build.vector("add", (0, x), rows, whole(self.hidden))
        return build

    def _attending_layer(self, sample: Sample) -> Block:
        """The encoder's output comes in; the decoder's hidden states and what they attend to go out."""
        build = self._builder(sample, "decoder_1", self.hidden)
        rows, width = positions(sample), whole(self.hidden)
        table = whole(self.vocab * self.hidden)
        held = whole(self.vocab)
        x = build.vector(
            "embedding", (0,), rows, width, name="target_embedding", weight=table, is_tied=True, table_rows=held
        )
        x = build.vector("dropout", (x,), rows, width)
        x = lstm(build, sample, x, self.hidden, self.hidden, name="lstm")
        additive_attention(build, sample, x, 0, self.hidden)
        return build.block(boundary_activation_elements=self._elements(sample, 2))

    def _decoder_layer(self, sample: Sample, name: str, *, has_residual: bool, repeat: int = 1) -> Block:
        """Reads the layer before beside what was attended to, and hands both on."""
        build = self._builder(sample, name, 2 * self.hidden)
        rows, both = positions(sample), whole(2 * self.hidden)
        x = build.vector("concat", (0,), rows, both)
        x = build.vector("dropout", (x,), rows, both)
        x = lstm(build, sample, x, 2 * self.hidden, self.hidden, name="lstm")
        if has_residual:
            build.vector("add", (0, x), rows, whole(self.hidden))
        return build.block(repeat=repeat, boundary_activation_elements=self._elements(sample, 2))

    def _head(self, sample: Sample) -> Block:
        build = self._builder(sample, "head", self.hidden)
        rows, vocab = positions(sample), whole(self.vocab)
        x = build.linear(0, rows, whole(self.hidden), vocab, name="classifier", bias=True)
        build.vector(sample.loss_kind, (x,), rows, vocab, name="loss")
        return build.block(is_layer=False)
