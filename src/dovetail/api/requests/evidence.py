"""Calls that compare us with others: `validate` with measurements, `reproduce` with a paper's results."""

# Annotations are evaluated here: the options in them are what commands are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    FLAG,
    REPEATED,
    SLOWDOWN,
    TEXT,
    VALUE,
    Option,
    Request,
    argument,
    counts,
    python_call,
)

if TYPE_CHECKING:
    from collections.abc import Sequence  # in annotations that are text
    from os import PathLike
    from typing import SupportsIndex

    from dovetail.api.progress import Tell
    from dovetail.api.reproduced import Reproduction
    from dovetail.api.validated import Validation
    from dovetail.files.job import Spec
    from dovetail.files.python_values import ChipLike, ClusterLike, ModelLike, PlanLike


@python_call
def validate(
    *target: Annotated[
        "str | PathLike[str]",
        argument(
            "h200, array-sims, dies, astra-sim, published-gemm, published, a CSV file, a folder of them, a training"
            " log, a trace of PyTorch's profiler, or results of --json.",
            "SET|FILE|FOLDER",
            REPEATED,
        ),
    ],
    chip: Annotated[
        "ChipLike",
        Option("A chip: name, the beginning of one such as h200, or a file. Otherwise as in the table.", "NAME", VALUE),
    ] = "",
    dtype: Annotated["str", Option("Of every row, whatever the table has.", "DTYPE")] = "",
    cases: Annotated[
        "str | PathLike[str]",
        Option("The Python file with the configurations that a table of steps names; read, not run.", "FILE", TEXT),
    ] = "",
    host_slowdown: Annotated[
        "float",
        Option("Of recorded steps: how many times as long as our measured host the table's takes.", "X", SLOWDOWN),
    ] = 1.0,
    cluster: Annotated[
        "ClusterLike",
        Option(
            "Of collectives and training logs: the cluster that ran, a name or a file such as calibrate writes.",
            "NAME",
            VALUE,
        ),
    ] = "",
    spec: Annotated[
        "Spec",
        Option("Of a training log or a trace: the spec file of its job, which goes before the log.", "FILE", VALUE),
    ] = "",
    model: Annotated[
        "ModelLike", Option("Of a training log: its model, a name, file or Hugging Face config.json.", "NAME", VALUE)
    ] = "",
    plan: Annotated["PlanLike", Option("Of a training log: its plan, a name or file.", "NAME", VALUE)] = "",
    devices: Annotated[
        "SupportsIndex | None", Option("Of a training log: devices of a catalogue cluster.", "N", COUNT)
    ] = None,
    global_batch: Annotated["SupportsIndex | None", Option("Of a training log: samples per step.", "N", COUNT)] = None,
    seq: Annotated[
        "SupportsIndex | None", Option("Of a training log: sequence length of a sample.", "N", COUNT)
    ] = None,
    compute: Annotated[
        "str", Option("Of a training log: what matrix products are computed in, such as fp16.", "DTYPE")
    ] = "",
    worst: Annotated["SupportsIndex", Option("How many of each set's worst rows to show.", "N", counts(least=0))] = 1,
    profile: Annotated[
        "str | PathLike[str] | Sequence[str | PathLike[str]]",
        Option(
            "A trace of PyTorch's profiler (.json, .json.gz) or of Chakra (.et): every operator beside ours;"
            " repeatable.",
            "FILE",
            REPEATED,
        ),
    ] = (),
    all: Annotated[
        "bool",
        Option(
            "One page: every set, speeds against other tools and gaps, measured now; takes some minutes.", kind=FLAG
        ),
    ] = False,
    progress: "Tell | bool" = False,
) -> "Validation":
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. A `target` is a set by name, a CSV
    file, a folder of them, a training log of Megatron-LM, TorchTitan, DeepSpeed, Lightning or the Hugging Face
    Trainer, a trace of PyTorch's profiler, or results as JSON. The job of a log is what the log says; `spec` goes
    before it, or `model`, `cluster`, `devices`, `plan`, `global_batch`, `seq` and `compute`, each as `simulate` takes
    it. `cases` is a Python file with the configurations of models that a table
    of steps names; without it, those beside the table are read. `host_slowdown` is how many times as long as the host
    that we measured the table's takes. `worst` is how many of each set's worst rows are shown, 0 for none.
    `cluster` is what measured collectives are compared with, such as a file that `dovetail calibrate` wrote.
    `profile` is a trace of PyTorch's profiler or of Chakra, or several: every operator of it is a row. `all` compares
    with every set that is here, times the commonest operations beside other tools, and proves gaps; it takes minutes.
    """
    request = ValidateRequest.of_arguments(locals())
    from dovetail.api.search_context import called
    from dovetail.api.validated import validated

    with called(progress) as context:
        return validated(request, context)


class ValidateRequest(Request, of=validate):
    """What `dovetail validate` and `dovetail.validate` are asked."""


@python_call
def reproduce(
    paper: Annotated["str", argument("Whose results: ace, phaze, phaze-dp, wham.", "PAPER")],
    *,
    modern_chips: Annotated[
        "bool",
        Option("With ace: the same question on chips of 2026, by mechanism.", kind=FLAG, old_flag="--beyond"),
    ] = False,
    refit: Annotated["bool", Option("Fit the declared compute scales again.", kind=FLAG)] = False,
    model: Annotated[
        "str | Sequence[str]",
        Option("With phaze or wham: only this model; may be repeated.", "NAME", REPEATED),
    ] = (),
    quick: Annotated[
        "bool", Option("With wham: prove, but do not schedule all designs; with phaze: no chips.", kind=FLAG)
    ] = False,
    progress: "Tell | bool" = False,
) -> "Reproduction":
    """A paper's tables and sweeps, ours beside the paper's: ace, phaze, phaze-dp or wham.

    `modern_chips` asks ace's question of chips of 2026; `refit` fits its declared compute scales again. With phaze and
    wham, `model` is one of their models, or some; `quick` leaves out what takes longest, the search for chips with
    phaze, and scheduling every design and following searches with wham. `fits` says whether every number that must
    meet the paper's does.
    """
    request = ReproduceRequest.of_arguments(locals())
    from dovetail.api.reproduced import called, reproduced

    with called(progress) as watched:
        return reproduced(request, watched)


class ReproduceRequest(Request, of=reproduce):
    """What `dovetail reproduce` and `dovetail.reproduce` are asked."""
