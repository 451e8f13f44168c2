"""The options of `dovetail op`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html

CHIP_HELP = "A chip: name, the beginning of one such as h200, or a file."
OP_HELP = "An operator, such as matmul, attention, convolution, layernorm, gelu or adam; list names them all."
DIMS_HELP = "M N K of a product; rows and columns; channels in, out and side of a convolution."
PASS_HELP = "forward, input-grad or weight-grad; sizes stay those of the forward product."
FUSED_HELP = "One kernel with the least passes over memory, not PyTorch's own."
SETTING_HELP = "alone (idle queue, cold caches), kernel (its kernels' time) or stream (behind others, full clock)."


def op(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=OP_HELP)],
    dims: Annotated[list[str] | None, typer.Argument(metavar="SIZE", help=DIMS_HELP, show_default=False)] = None,
    chip: Annotated[str, typer.Option(metavar="NAME", help=CHIP_HELP)] = "",
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help="What it is computed in.")] = "bf16",
    direction: Annotated[str, typer.Option("--pass", metavar="PASS", help=PASS_HELP)] = "forward",
    batch: Annotated[str, typer.Option(metavar="N", help="Products, samples or images at once.")] = "1",
    heads: Annotated[str, typer.Option(metavar="N", help="Attention heads.")] = "1",
    kv_heads: Annotated[str | None, typer.Option(metavar="N", help="Key-value heads, where fewer.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions that attend to each other.")] = None,
    head_dim: Annotated[str | None, typer.Option(metavar="N", help="Width of an attention head.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Attention to earlier positions only.")] = False,
    kernel: Annotated[str, typer.Option(metavar="N", help="Side of a convolution's window.")] = "1",
    stride: Annotated[str, typer.Option(metavar="N", help="Stride of a convolution.")] = "1",
    table_rows: Annotated[str, typer.Option(metavar="N", help="Rows of the table an embedding looks up in.")] = "1",
    fused: Annotated[bool, typer.Option("--fused", help=FUSED_HELP)] = False,
    setting: Annotated[str, typer.Option(metavar="HOW", help=SETTING_HELP)] = "alone",
    compare: Annotated[bool, typer.Option("--compare", help="Beside a roofline and closed forms.")] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Cost one operator on one chip, and say what limits it."""
    from dovetail.cli.op import Said, answer

    counts = {"batch": batch, "heads": heads, "kv-heads": kv_heads, "seq": seq, "head-dim": head_dim}
    counts |= {"kernel": kernel, "stride": stride, "table-rows": table_rows}
    words = {"kind": kind, "dtype": dtype, "direction": direction, "setting": setting}
    said = Said(**words, dims=tuple(dims or ()), counts=counts, is_causal=causal, is_fused=fused)
    answer(said, chip, is_compared=compare, as_json=as_json, html=html)
