"""The call that measures on the machine it runs on: `measure`, of operators, collectives and whole steps."""

# Annotations are evaluated here: the options in them are what commands are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    FLAG,
    NAMES,
    REPEATED,
    TEXT,
    VALUE,
    Option,
    Request,
    argument,
    python_call,
)

if TYPE_CHECKING:
    from collections.abc import Sequence  # in annotations that are text
    from os import PathLike
    from typing import SupportsIndex

    from dovetail.api.gpu_measured import Measurement
    from dovetail.api.progress import Tell
    from dovetail.files.python_values import ChipLike


@python_call
def measure(
    *what: Annotated[
        "str | PathLike[str]",
        argument(
            "Nothing for operators and collectives; or step and a config.json or file.py:factory, whose training step"
            " is measured.",
            "step MODEL",
            REPEATED,
        ),
    ],
    out: Annotated[
        "str | PathLike[str]",
        Option("The folder of the tables; rows found there are kept, and only others measured.", "FOLDER", TEXT),
    ] = "measured",
    quick: Annotated["bool", Option("About a quarter of the rows, spread over each table.", kind=FLAG)] = False,
    only: Annotated[
        "str | Sequence[str]",
        Option(
            "Some groups alone: attention, bmm, ceilings, collectives, convolution, eager, gemm, power, steps, vector.",
            "GROUPS",
            NAMES,
        ),
    ] = "",
    chip: Annotated[
        "ChipLike",
        Option("Of a step: the chip to predict it on, a name or a file. Otherwise as the GPU is named.", "NAME", VALUE),
    ] = "",
    batch: Annotated["SupportsIndex | None", Option("Of a step: samples.", "N", COUNT)] = None,
    seq: Annotated["SupportsIndex | None", Option("Of a step: sequence length.", "N", COUNT)] = None,
    autocast: Annotated[
        "str", Option("Of a step: fp32 weights under autocast to this dtype, bf16 or fp16.", "DTYPE")
    ] = "",
    checkpoint: Annotated[
        "bool", Option("Of a step: layers are recomputed (gradient_checkpointing_enable).", kind=FLAG)
    ] = False,
    compile: Annotated["bool", Option("Of a step: under torch.compile.", kind=FLAG)] = False,
    optimizer: Annotated["str", Option("Of a step: a class of torch.optim.", "NAME")] = "adamw",
    progress: "Tell | bool" = False,
) -> "Measurement":
    """Measure this machine's GPU: tables for `validate` and `dovetail calibrate`.

    Without an argument, operators, power, small steps and, where there are several GPUs, collectives go into tables in
    the folder `out`; `only` names some groups of them, and `quick` takes about a quarter of the rows. Rows that stand
    are kept, so that a call that was stopped goes on. With "step" and a model, a config.json or file.py:factory,
    its training step is measured at `batch` and `seq`, under `autocast`, with `checkpoint` or `compile` and an
    `optimizer` of torch.optim, and put beside the prediction for `chip`. Raises where there is no GPU or no PyTorch.
    """
    request = MeasureRequest.of_arguments(locals())
    from dovetail.api.gpu_measured import measured_answer
    from dovetail.api.progress import progress_callback

    with progress_callback(progress) as tell:
        return measured_answer(request, tell)


class MeasureRequest(Request, of=measure):
    """What `dovetail measure` and `dovetail.measure` are asked."""
