"""The options of `dovetail capture`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html

TARGET_HELP = "package.module:factory, file.py:factory, a Hugging Face config.json, or a model.onnx."
INPUTS_HELP = "What a module is called with, such as 'input_ids:int64[2,512]'; factories may return it too."
OUT_HELP = "The model file to write, NAME.captured.json if left out; every command takes it as --model."
NAME_HELP = "What the model is called; else as its file, folder or class is."
BATCH_HELP = "Samples of the example, of a configuration or ONNX file; the model is for any batch."
SEQ_HELP = "Positions of a sample, of a configuration or ONNX file."
DIM_HELP = "Which dim of the inputs counts positions; else the second of those with whole numbers."
CACHE_HELP = "Keep captures under a hash of all that decides them, and take them from there."


def capture(
    model: Annotated[str, typer.Argument(metavar="TARGET", help=TARGET_HELP)],
    example_inputs: Annotated[str, typer.Option("--inputs", metavar="SHAPES", help=INPUTS_HELP)] = "",
    out: Annotated[str, typer.Option(metavar="FILE", help=OUT_HELP)] = "",
    name: Annotated[str, typer.Option(metavar="NAME", help=NAME_HELP)] = "",
    batch: Annotated[str | None, typer.Option(metavar="N", help=BATCH_HELP)] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help=SEQ_HELP)] = None,
    seq_dim: Annotated[str | None, typer.Option(metavar="N", help=DIM_HELP)] = None,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help=CACHE_HELP)] = True,
    force: Annotated[bool, typer.Option("--force", help="Write over files that stand.")] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Take a PyTorch, Hugging Face or ONNX model as it is.

    Every other command takes the file it writes. Its code runs here, on tensors without memory: no weights, no GPU, no
    download.
    """
    from dovetail.api.arguments import count
    from dovetail.cli.capture import CaptureSaid, answer

    said = CaptureSaid(
        target=model,
        inputs=example_inputs,
        name=name,
        batch=count("--batch", batch),
        seq=count("--seq", seq),
        seq_dim=count("--seq-dim", seq_dim),
        is_kept=cache,
        out=out,
        is_forced=force,
        html=html,
        as_json=as_json,
    )
    answer(said)
