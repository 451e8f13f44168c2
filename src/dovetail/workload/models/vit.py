"""Vision transformers (Dosovitskiy et al. 2020): patches as positions, and a class token that is classified."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph, Rule
from dovetail.workload.layers import Sample, whole
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer
from dovetail.workload.vision import NUM_CLASSES, NUM_COLOURS, refuse_positions


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTransformer:
    """An encoder over square patches of one image; the image, not the user, says how many positions there are."""

    name: str
    num_layers: int
    hidden: int
    num_heads: int
    ffn_width: int
    patch: int
    side: int = 224

    @property
    def num_positions(self) -> int:
        """Patches and the class token."""
        return (self.side // self.patch) ** 2 + 1

    def forward(self, sample: Sample) -> Graph:
        refuse_positions(self.name, sample)
        inside = replace(sample, seq=self.num_positions)
        encoder = self._encoder.forward(inside)
        layers = tuple(block for block in encoder.blocks if block.is_layer)
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=1,
            dtype=sample.dtype,
            blocks=(self._embedding(inside), *layers, self._head(inside)),
            rules=(
                Rule(axis=Axis.TENSOR, label="num_heads", count=self.num_heads),
                Rule(axis=Axis.TENSOR, label="ffn_width", count=self.ffn_width),
                Rule(axis=Axis.SEQUENCE, label="num_positions", count=self.num_positions),
                Rule(axis=Axis.CONTEXT, label="num_positions", count=self.num_positions),
            ),
            num_kv_heads=encoder.num_kv_heads,
        )

    @property
    def _encoder(self) -> Transformer:
        """The transformer whose layers these are; its embedding and head are not used."""
        return Transformer(
            name=self.name,
            num_layers=self.num_layers,
            hidden=self.hidden,
            num_heads=self.num_heads,
            num_kv_heads=self.num_heads,
            head_width=self.hidden // self.num_heads,
            ffn_width=self.ffn_width,
            vocab=NUM_CLASSES,
            norm="layernorm",
            norm_has_bias=True,
            activation="gelu",
            qkv_bias=True,
            output_bias=True,
            ffn_bias=True,
            is_causal=False,
            has_rope=False,
        )

    def _embedding(self, sample: Sample) -> Block:
        pixels = (sample.batch * self.side**2, Axis.DATA)
        build = BlockBuilder(
            "embedding",
            sample.dtype,
            pixels,
            whole(NUM_COLOURS),
            is_input_data=True,
            kernels=sample.kernel_set,
        )
        x = build.convolution(
            0,
            name="patches",
            groups=1,
            pixels=(sample.batch * (self.num_positions - 1), Axis.DATA),
            in_width=self.patch**2 * NUM_COLOURS,
            out_width=self.hidden,
            input_frac=1.0,  # patches do not overlap
            window=self.patch**2,
            stride=self.patch,
            bias=True,
        )
        rows, cols = sample.shared_tokens, whole(self.hidden)
        x = build.vector("concat", (x,), rows, cols, name="class_token", weight=cols)
        build.vector("bias_add", (x,), rows, cols, name="positions", weight=whole(self.num_positions * self.hidden))
        block = build.block(is_layer=False, boundary_activation_elements=rows[0] * self.hidden)
        return replace(block, boundary_activation_split=int(rows[1]))  # pixels come in, positions go out

    def _head(self, sample: Sample) -> Block:
        build = sample.builder("head", self.hidden)
        x = build.vector(
            "layernorm",
            (0,),
            sample.shared_tokens,
            whole(self.hidden),
            name="final_norm",
            weight=whole(2 * self.hidden),
        )
        rows, classes = (sample.batch, Axis.DATA), whole(NUM_CLASSES)
        x = build.linear(x, rows, whole(self.hidden), classes, name="classifier", bias=True)
        build.vector(sample.loss_kind, (x,), rows, classes, name="loss")
        return build.block(is_layer=False)


@models.register("vit-l-16")
def vit_l_16() -> Model:
    return Model(
        architecture=VisionTransformer(
            name="vit-l-16", num_layers=24, hidden=1024, num_heads=16, ffn_width=4096, patch=16
        ),
        family="vit",
        seq=1,
        sample="images",
        published_parameters=304_326_632,
        is_exact=True,
        source="Dosovitskiy et al. 2020, arXiv:2010.11929; parameters of torchvision's vit_l_16, 197 positions",
    )
