"""Calls on several jobs at once: `compare` and `sweep`.

Importing this takes no time: answers are imported when asked for.
"""

# Annotations are evaluated here: the options in them are what commands and forms are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.jobs import (
    COMPUTE,
    Cluster,
    Cp,
    Devices,
    Dp,
    Ep,
    Etp,
    ForwardOnly,
    GlobalBatch,
    Headroom,
    Jitter,
    LoraRank,
    LoraTargets,
    Microbatch,
    Model,
    Pp,
    Price,
    Profile,
    Recompute,
    Schedule,
    Seq,
    Sp,
    SpecOfJob,
    Tokens,
    Tp,
    Vpp,
    Zero,
)
from dovetail.api.requests.option import AXES, REPEATED, VALUE, VALUES, Option, Request, argument, python_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence  # in annotations that are text
    from typing import Any

    from dovetail.api.compared import Comparison
    from dovetail.api.progress import Tell
    from dovetail.files.job import Spec
    from dovetail.files.python_values import ClusterLike, ModelLike, PlanLike


@python_call
def compare(
    *designs: Annotated[
        "Spec",
        argument("Spec files, or names of models, clusters and plans: h100x64, tp=8,pp=4, zero3.", "DESIGN", REPEATED),
    ],
    model: Annotated["ModelLike | Sequence[ModelLike]", Option("A model; repeat it for more.", "NAME", VALUES)] = (),
    cluster: Annotated[
        "ClusterLike | Sequence[ClusterLike]",
        Option("A cluster: name, name with its size as h100x64, or file; repeat it for more.", "NAME", VALUES),
    ] = (),
    devices: Devices = None,
    plan: Annotated[
        "PlanLike | Sequence[PlanLike]",
        Option("A plan: name, file, tp=8,pp=4,zero=1, or auto for the best; repeat it for more.", "PLAN", VALUES),
    ] = (),
    tp: Tp = None,
    pp: Pp = None,
    dp: Dp = None,
    cp: Cp = None,
    ep: Ep = None,
    etp: Etp = None,
    sp: Sp = None,
    vpp: Vpp = None,
    zero: Zero = None,
    microbatch: Microbatch = None,
    recompute: Recompute = None,
    schedule: Schedule = None,
    global_batch: GlobalBatch = None,
    seq: Seq = None,
    compute: Annotated["str | None", COMPUTE] = None,
    lora_rank: LoraRank = None,
    lora_targets: LoraTargets = "",
    headroom: Headroom = None,
    jitter: Jitter = None,
    forward_only: ForwardOnly = False,
    tokens: Tokens = "",
    price: Annotated[  # style: people write it with its unit
        "str | float | Sequence[str | float]",
        Option(
            "What a device costs, such as '2.5 $/h'; once for all, or once for every --cluster in turn.",
            "PRICE",
            VALUES,
        ),
    ] = (),
    progress: "Tell | bool" = False,
) -> "Comparison":
    """Compare jobs in one table: what differs first, then time, throughput, memory, energy and price.

    `designs` are spec files or mappings, or names of models, clusters and plans. `model`, `cluster` and `plan` may each
    be several: every combination is a row, of each spec where there are specs. The other arguments are those of
    `simulate` and go for all; `price` is one for all, or one for every cluster. What does not fit, and what cannot be
    read, is a row that says why. `rows` are for a data frame.
    """
    request = CompareRequest.of_arguments(locals())
    from dovetail.api.compared import compared
    from dovetail.api.simulated import called

    return compared(request, context=lambda: called(progress))


class CompareRequest(Request, of=compare):
    """What `dovetail compare` and `dovetail.compare` are asked."""


@python_call
def sweep(
    spec: SpecOfJob = "",
    *,
    over: Annotated[
        "Mapping[str, Iterable[Any]] | str | Sequence[str]",
        Option(
            "A key of a spec and its values: plan.tp=1,2,4, cluster.devices=64..512*2 or"
            " chip.hbm.bandwidth=2TB/s..8TB/s:7. Repeat it for more axes.",
            "KEY=VALUES",
            AXES,
        ),
    ] = (),
    model: Model = "",
    cluster: Cluster = "",
    devices: Devices = None,
    plan: Annotated[
        "PlanLike", Option("A plan: name, file, tp=8,pp=4,zero=1, or auto for the best.", "PLAN", VALUE)
    ] = "",
    tp: Tp = None,
    pp: Pp = None,
    dp: Dp = None,
    cp: Cp = None,
    ep: Ep = None,
    etp: Etp = None,
    sp: Sp = None,
    vpp: Vpp = None,
    zero: Zero = None,
    microbatch: Microbatch = None,
    recompute: Recompute = None,
    schedule: Schedule = None,
    global_batch: GlobalBatch = None,
    seq: Seq = None,
    compute: Annotated["str | None", COMPUTE] = None,
    lora_rank: LoraRank = None,
    lora_targets: LoraTargets = "",
    headroom: Headroom = None,
    jitter: Jitter = None,
    forward_only: ForwardOnly = False,
    tokens: Tokens = "",
    price: Price = "",
    profile: Profile = "",
    progress: "Tell | bool" = False,
) -> "Comparison":
    """Predict a step at every combination of some keys' values: rows for a table or a data frame.

    `over` has values by key of a spec, {"plan.tp": [1, 2, 4], "chip.hbm.bandwidth": ["3 TB/s", "4 TB/s"]}, or is
    written as the command has it, "plan.tp=1..16*2"; arguments of `simulate`, such as global_batch, are keys too. The
    other arguments are those of `simulate`. Every row has what was varied, whether it fits, and figures; a row that
    does not fit or cannot be read says why and costs no other. The answer is a sequence of its rows.
    """
    request = SweepRequest.of_arguments(locals())
    from dovetail.api.simulated import called
    from dovetail.api.sweeps import swept

    return swept(request, context=lambda: called(progress))


class SweepRequest(Request, of=sweep):
    """What `dovetail sweep` and `dovetail.sweep` are asked."""
