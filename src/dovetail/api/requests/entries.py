"""Calls that bring a model in and look things up: `capture`, `show` and `studies`."""

# Annotations are evaluated here: the options in them are what commands are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    FLAG,
    NAMES,
    REPEATED,
    SLOWDOWN,
    SWITCH,
    TEXT,
    VALUE,
    Kind,
    Option,
    Request,
    argument,
    python_call,
)

if TYPE_CHECKING:
    from collections.abc import Iterable  # in annotations that are text
    from os import PathLike
    from typing import Any, SupportsIndex

    from dovetail.api.captured import Capture
    from dovetail.api.shown import Entry
    from dovetail.api.stored import Studies
    from dovetail.files.python_values import ChipLike, ClusterLike, ModelLike


def _dim(flag: str, value: int) -> int:
    from dovetail.api.captured import dim_of

    return dim_of(flag, value)


# A dim of a tensor, from 1 on; 0 where it was left out.
DIM = Kind(
    parse=lambda flag, text: 0 if text is None else _dim(flag, COUNT.parse(flag, text)),
    check=lambda flag, value: 0 if value is None else _dim(flag, value.__index__()),
    unset=0,
    example="1",
)


@python_call
def capture(
    model: Annotated[
        "Any",
        argument(
            "package.module:factory, file.py:factory, a Hugging Face config.json, a model.onnx; with --world-size a "
            "script.",
            "TARGET",
        ),
    ],
    example_inputs: Annotated[
        "Any",
        Option(
            "What a module is called with, such as 'input_ids:int64[2,512]'; factories may return it too.",
            "SHAPES",
            VALUE,
            flag="--inputs",
        ),
    ] = None,
    *,
    name: Annotated["str", Option("What the model is called; else as its file, folder or class is.", "NAME")] = "",
    batch: Annotated[
        "SupportsIndex | None",
        Option("Samples of the example, of a configuration or ONNX file; the model is for any batch.", "N", COUNT),
    ] = None,
    seq: Annotated[
        "SupportsIndex | None", Option("Sequence length, of a configuration or ONNX file.", "N", COUNT)
    ] = None,
    seq_dim: Annotated[
        "SupportsIndex | None",
        Option("Which dim of the inputs is the sequence; else the second of those with whole numbers.", "N", DIM),
    ] = None,
    chip: Annotated[
        "ChipLike",
        Option("Also predict the step that the code takes on one such chip: time and peak memory.", "NAME", VALUE),
    ] = "",
    autocast: Annotated[
        "str", Option("With --chip: fp32 weights under autocast to this dtype, bf16 or fp16.", "DTYPE")
    ] = "",
    checkpoint: Annotated[
        "bool", Option("With --chip: layers are recomputed (gradient_checkpointing_enable).", kind=FLAG)
    ] = False,
    compile: Annotated["bool", Option("With --chip: under torch.compile.", kind=FLAG)] = False,
    optimizer: Annotated[
        "str", Option("With --chip: a class of torch.optim, as adamw or adamw:foreach.", "NAME")
    ] = "adamw",
    host_slowdown: Annotated[
        "float", Option("With --chip: how many times as long as the measured host yours takes.", "X", SLOWDOWN)
    ] = 1.0,
    world_size: Annotated[
        "SupportsIndex | None",
        Option("TARGET is a script or function of a job of so many processes: record its step.", "N", COUNT),
    ] = None,
    arguments: Annotated[
        "Iterable[str]", argument("With --world-size: the script's own, after --.", "ARGS", REPEATED)
    ] = (),
    module: Annotated[
        "bool", Option("With --world-size: TARGET is a module, run as python -m does.", kind=FLAG, flag="-m")
    ] = False,
    cluster: Annotated[
        "ClusterLike", Option("With --world-size: the cluster that it runs on; dgx-h100 if left out.", "NAME", VALUE)
    ] = "",
    ranks: Annotated[
        "Iterable[int] | str",
        Option("With --world-size: which ranks to record, as 0,8; else one of each kind.", "RANKS", NAMES),
    ] = "",
    unsharded: Annotated[
        "ModelLike",
        Option(
            "With --world-size: the model of the script, by name or file, to set plans beside its step; else the "
            "catalogue's with exactly as many parameters.",
            "MODEL",
            VALUE,
        ),
    ] = "",
    cache: Annotated[
        "bool",
        Option("Keep captures under a hash of all that decides them, and take them from there.", kind=SWITCH),
    ] = True,
) -> "Capture":
    """Record a model of another tool: no download, no weights in memory, no GPU.

    `model` is a PyTorch module, a function that builds one, a configuration of Hugging Face, or a name as the command
    has it: package.module:factory, file.py:factory, a config.json or a model.onnx. `example_inputs` is what the module
    is called with: a tensor, a tuple or a mapping of them, or text such as "input_ids:int64[2,512]". Models of
    transformers know theirs, and take `batch` and `seq`. Positions are the second dim of integer inputs, or `seq_dim`.
    With a `chip`, `steps` has the step that the code takes on one of it, operator by operator: under `autocast`, with
    `checkpoint` or `compile`, with an `optimizer` of torch.optim, and with a host that takes `host_slowdown` times as
    long as the one that was measured.
    With a `world_size`, `model` names a training script, or a function that trains, of a job of so many processes:
    train.py, file.py:function, package.module:function, or with `module` what `python -m` takes. It is run for one rank
    of each kind, or for `ranks`, with its own `arguments`, without a GPU or other processes, and `jobs` has its step on
    a `cluster`, beside plans of the `unsharded` model.
    """
    request = CaptureRequest.of_arguments(locals())
    from dovetail.api.captured import found_capture

    return found_capture(request)


class CaptureRequest(Request, of=capture):
    """What `dovetail capture` and `dovetail.capture` are asked."""


@python_call
def show(
    name: Annotated["str | PathLike[str]", argument("A name from any catalogue, or a file.", "NAME", TEXT)],
    *,
    kind: Annotated[
        "str",
        Option("Which catalogue is meant, where a name is in several: model, chip, cluster or plan.", "KIND"),
    ] = "",
) -> "Entry":
    """One model, chip, cluster or plan, with its sources.

    `name` is of any catalogue, or a file: a Hugging Face config.json, or a YAML file with a model, chip, cluster or
    whole spec in it. `kind` says which catalogue is meant where several have the name.
    """
    request = ShowRequest.of_arguments(locals())
    from dovetail.api.shown import shown

    return shown(request)


class ShowRequest(Request, of=show):
    """What `dovetail show` and `dovetail.show` are asked."""


@python_call
def studies(
    store: Annotated["str | PathLike[str]", argument("A file that a search was given by --store.", "STORE", TEXT)],
    *,
    study: Annotated[
        "str",
        Option("One study, by the beginning of its key: its question, every row checked, and the best rows.", "KEY"),
    ] = "",
    top: Annotated[
        "SupportsIndex | None", Option("How many rows of --study to show; 10, if left out.", "N", COUNT)
    ] = None,
) -> "Studies":
    """The studies of a store: progress and best of each.

    `store` is a file that a search was given by `store=`. `study` is one of them, by the beginning of its key: all it
    was asked by, every row checked, and the `top` best rows, 10 if left out.
    """
    request = StudiesRequest.of_arguments(locals())
    from dovetail.api.stored import stored

    return stored(request)


class StudiesRequest(Request, of=studies):
    """What `dovetail studies` and `dovetail.studies` are asked."""
