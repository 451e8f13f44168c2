"""Calls on a job, which is a model on a cluster with its plan: `simulate`, `plan` and `launch`.

A parameter here is an option of the command, a field of the request and, with a `form` label, of the explorer's form;
docs/howto/add-an-option.md shows how to add one. Importing this takes no time: answers are imported when asked for.
"""

# Annotations are evaluated here: the options in them are what commands and forms are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    FRACTION,
    REPEATED,
    SECONDS,
    TOKENS,
    VALUE,
    Option,
    Request,
    argument,
    python_call,
)

if TYPE_CHECKING:
    from collections.abc import Sequence  # in annotations that are text
    from typing import SupportsIndex

    from dovetail.api.launched import LaunchScript
    from dovetail.api.planned import Planning
    from dovetail.api.progress import Tell
    from dovetail.api.simulated import Simulation
    from dovetail.files.job import Spec
    from dovetail.files.profiled_cluster import ProfileLike
    from dovetail.files.python_values import ClusterLike, ModelLike, PlanLike

SpecOfJob = Annotated["Spec", argument("A spec file: workload, cluster and plan.", "SPEC")]
SpecToPlan = Annotated[
    "Spec", argument("A spec file: workload, cluster, and if there are any, space and your own plan.", "SPEC")
]
NOT_YET = "pages plan over the whole space so far"
CHOSEN = "it is chosen from the catalogue or uploaded"
Model = Annotated[
    "ModelLike", Option("A model: name, file or Hugging Face config.json.", "NAME", VALUE, no_form=CHOSEN)
]
Cluster = Annotated["ClusterLike", Option("A cluster: name or file.", "NAME", VALUE, no_form=CHOSEN)]
Devices = Annotated["SupportsIndex | None", Option("Devices of a catalogue cluster.", "N", COUNT, form="Devices")]
GlobalBatch = Annotated[
    "SupportsIndex | None", Option("Global batch: samples per step.", "N", COUNT, form="Global batch", address="batch")
]
Seq = Annotated["SupportsIndex | None", Option("Sequence length of a sample.", "N", COUNT, form="Sequence length")]
COMPUTE = Option(
    "What matrix products are computed in, such as fp16: the workload's precision.compute.", "DTYPE", form="Compute in"
)
Headroom = Annotated[
    "str | float | None",
    Option(
        "Memory of every device that plans leave free, such as 5%; the chip's own reserve, if left out.",
        "SHARE",
        FRACTION,
        form="Memory left free",
        placeholder="4%",
    ),
]
Jitter = Annotated[
    "str | float | None",
    Option(
        "Standard deviation of when ranks come to a collective, such as 5us; as the cluster states, if left out.",
        "TIME",
        SECONDS,
        no_form="a cluster file states it",
    ),
]
Profile = Annotated[
    "ProfileLike",
    Option(
        "A trace of PyTorch's profiler or Chakra: measured times go before predictions.",
        "FILE",
        VALUE,
        no_form="a page reads no file of its machine",
    ),
]


@python_call
def simulate(
    spec: SpecOfJob = "",
    *,
    model: Model = "",
    cluster: Cluster = "",
    devices: Devices = None,
    plan: Annotated["PlanLike", Option("A plan: name, file, or auto for the best.", "NAME", VALUE)] = "",
    global_batch: GlobalBatch = None,
    seq: Seq = None,
    compute: Annotated["str | None", COMPUTE] = None,
    headroom: Headroom = None,
    jitter: Jitter = None,
    tokens: Annotated[
        "str | float", Option("Tokens to train on in all, such as 15T: how long that takes.", "N", TOKENS)
    ] = "",
    profile: Profile = "",
    progress: "Tell | bool" = False,
) -> "Simulation":
    """Predict one training step: time, memory, energy, limits.

    `spec` is a spec file or a mapping with its keys; the other arguments go before what it says. Without one, give
    `model`, `cluster` and `plan`: each a catalogue name, a file, a mapping with the keys of a spec, or a value
    (`Model`, `Cluster`, `Plan`). A cluster's size may stand in its name, as in "h100x512". `plan="auto"` is the
    planner's best, told to `progress` as it is searched for. `tokens` is what to train on in all, such as "15T".
    `headroom` is the share of memory that plans leave free, 0.05 or "5%"; the chip's own reserve, if left out.
    `jitter` is the standard deviation of when ranks come to a collective, in seconds or "5us": all wait for the last.
    `profile` is a trace of PyTorch's profiler or of Chakra, or {"file": it, "chip": NAME}: what was measured goes
    before what is predicted.

    A plan that does not fit is an answer too: `fits` is false then, and `levers` says what would make it fit.
    """
    request = SimulateRequest.of_arguments(locals())
    from dovetail.api.simulated import called, simulated

    return simulated(request, context=lambda: called(progress))


class SimulateRequest(Request, of=simulate):
    """What `dovetail simulate` and `dovetail.simulate` are asked."""


@python_call
def plan(
    spec: SpecToPlan = "",
    *,
    model: Model = "",
    cluster: Cluster = "",
    devices: Devices = None,
    global_batch: GlobalBatch = None,
    seq: Seq = None,
    compute: Annotated["str", COMPUTE] = "",
    headroom: Headroom = None,
    jitter: Jitter = None,
    top: Annotated[
        "SupportsIndex",
        Option("How many plans to show, no two of the same degrees.", "N", COUNT, no_form="the page shows one"),
    ] = 10,
    objective: Annotated[
        "str",
        Option(
            "time, tokens/s, tokens/s/$, tokens/J or headroom.", "NAME", no_form="the search page has a list of them"
        ),
    ] = "time",
    limit: Annotated[
        "SupportsIndex",
        Option(
            "Plans of which layers and recompute are set by stage, at the most; what stays open is said as a gap.",
            "N",
            COUNT,
            no_form="a page answers within seconds",
        ),
    ] = 2000,
    fix: Annotated[
        "Sequence[str]",
        Option(
            "Choose from these values only: tp=8, zero_stage=1,2, overlap.tensor=true. Repeat it for other keys.",
            "KEY=VALUE",
            REPEATED,
            no_form=NOT_YET,
        ),
    ] = (),
    forbid: Annotated[
        "Sequence[str]",
        Option(
            "Leave out tensor, sequence, context, pipeline, interleave, expert, zero, recompute or uneven (stages that"
            " differ), or values: tp=1,2; repeatable.",
            "FEATURE",
            REPEATED,
            no_form=NOT_YET,
        ),
    ] = (),
    profile: Profile = "",
    progress: "Tell | bool" = False,
) -> "Planning":
    """Find the best plan for a model on a cluster, and prove it.

    `spec`, `model`, `cluster` and the counts are as `simulate` takes them. `top` is how many plans come back, no two
    of the same degrees; `objective` is time, tokens/s, tokens/s/$, tokens/J or headroom; `limit` is of how many plans
    layers and recompute are set by stage. `fix` and `forbid` are as the command's: "tp=8", "uneven".
    `profile` is as `simulate` takes it.

    `progress` is called with a `Progress` as the search goes on; what it raises ends the search. True shows a bar.
    """
    request = PlanRequest.of_arguments(locals())
    from dovetail.api.planned import planned
    from dovetail.api.search_context import called

    with called(progress) as context:
        return planned(request, context)


class PlanRequest(Request, of=plan):
    """What `dovetail plan` and `dovetail.plan` are asked."""


@python_call
def launch(
    spec: SpecOfJob = "",
    *,
    framework: Annotated["str", Option("megatron-lm, torchtitan, deepspeed or maxtext.", "NAME")] = "",
    model: Model = "",
    cluster: Cluster = "",
    devices: Devices = None,
    plan: Annotated["PlanLike", Option("A plan: name or file.", "NAME", VALUE)] = "",
    global_batch: GlobalBatch = None,
    seq: Seq = None,
    compute: Annotated["str | None", COMPUTE] = None,
    headroom: Headroom = None,
) -> "LaunchScript":
    """What starts a plan with a training framework: megatron-lm, torchtitan, deepspeed or maxtext.

    The other arguments are those of `simulate`. What the framework has no words for is named: not expressed.
    """
    request = LaunchRequest.of_arguments(locals())
    from dovetail.api.launched import launched

    return launched(request)


class LaunchRequest(Request, of=launch):
    """What `dovetail launch` and `dovetail.launch` are asked."""
