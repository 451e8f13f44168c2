"""Calls on a job, which is a model on a cluster with its plan: `simulate`, `plan` and `launch`.

A parameter here is an option of the command, a field of the request and, with a `form` label, of the explorer's form;
docs/howto/add-an-option.md shows how to add one. Importing this takes no time: answers are imported when asked for.
"""

# Annotations are evaluated here: the options in them are what commands and forms are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    DECISION,
    FLAG,
    FRACTION,
    NAMES,
    PRICE,
    REPEATED,
    SECONDS,
    SWITCH,
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
    from dovetail.files.inline_plan import Decision
    from dovetail.files.job import Spec
    from dovetail.files.profiled_cluster import ProfileLike
    from dovetail.files.python_values import ClusterLike, ModelLike, PlanLike

SpecOfJob = Annotated["Spec", argument("A spec file: workload, cluster and plan.", "SPEC")]
SpecToPlan = Annotated[
    "Spec", argument("A spec file: workload, cluster, and if there are any, space and your own plan.", "SPEC")
]
NOT_YET = "pages plan over the whole space so far"
FRAMEWORKS = "megatron-lm, megatron-bridge, torchtitan, deepspeed, fsdp2 or maxtext"
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
Endpoint = Annotated[
    "str",
    Option(
        "What runs collectives on every chip: sm, dma, ace, ici, in-switch, near-memory or ideal; the chip's own, if"
        " left out.",
        "NAME",
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

Tokens = Annotated[
    "str | float",
    Option(
        "Tokens to train on in all, such as 15T: how long that takes.",
        "N",
        TOKENS,
        no_form="a page shows one step",
    ),
]
Price = Annotated[
    "str | float",
    Option(
        "What a device costs, such as '2.5 $/h': dollars for a step, and for --tokens.",
        "PRICE",
        PRICE,
        no_form="a page shows one step",
    ),
]

ForwardOnly = Annotated[
    "bool",
    Option(
        "An evaluation step: forward passes alone, without gradients and optimizer state.",
        kind=FLAG,
        no_form="a page shows a training step",
    ),
]


LoraRank = Annotated[
    "SupportsIndex | None",
    Option(
        "Train low-rank adapters of this rank, with all weights frozen: LoRA.", "N", COUNT, no_form="a spec states it"
    ),
]
LoraTargets = Annotated[
    "str | Sequence[str]",
    Option(
        "Modules with adapters: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj; all of them, if left"
        " out.",
        "NAMES",
        NAMES,
        no_form="a spec states it",
    ),
]


def _decision(help: str, metavar: str = "N") -> Option:
    """A decision of a plan: `simulate` and `launch` put it in the plan's place, `plan` chooses under it."""
    return Option(help, metavar, DECISION, no_form=NOT_YET)


Tp = Annotated["Decision", _decision("Tensor parallel degree, in place of the plan's.")]
Pp = Annotated["Decision", _decision("Pipeline parallel degree: stages.")]
Dp = Annotated["Decision", _decision("Data parallel degree; what fills the cluster, if left out.")]
Cp = Annotated["Decision", _decision("Context parallel degree.")]
Ep = Annotated["Decision", _decision("Expert parallel degree.")]
Etp = Annotated["Decision", _decision("Expert tensor parallel degree.")]
Sp = Annotated["bool | None", Option("Sequence parallelism with tensor parallelism.", kind=SWITCH, no_form=NOT_YET)]
Vpp = Annotated["Decision", _decision("Chunks of layers per stage: virtual pipeline, interleave.")]
Zero = Annotated["Decision", _decision("ZeRO stage: 0, 1, 2 or 3.")]
Microbatch = Annotated["Decision", _decision("Samples of a microbatch.")]
Recompute = Annotated["Decision", _decision("none, selective, norm-activation, selective-op or full.", "POLICY")]
Schedule = Annotated["Decision", _decision("Pipeline schedule: 1f1b, gpipe, zb-h1 and others.", "NAME")]


@python_call
def simulate(
    spec: SpecOfJob = "",
    *,
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
    endpoint: Endpoint = "",
    forward_only: ForwardOnly = False,
    tokens: Tokens = "",
    price: Price = "",
    launch_text: Annotated[
        "str",
        Option(
            "A file that starts a run, as launch writes it: its plan, batch, length and dtypes go before the spec's.",
            "FILE",
            no_form="a page reads no file of its machine",
        ),
    ] = "",
    profile: Profile = "",
    progress: "Tell | bool" = False,
) -> "Simulation":
    """Predict one training step: time, memory, energy, limits.

    `spec` is a spec file or a mapping with its keys; the other arguments go before what it says. Without one, give
    `model`, `cluster` and `plan`: each a catalogue name, a file, a mapping with the keys of a spec, or a value
    (`Model`, `Cluster`, `Plan`). A cluster's size may stand in its name, as in "h100x512". `plan="auto"` is the
    planner's best, told to `progress` as it is searched for; "tp=8,pp=4,zero=1" writes one out. `tp`, `pp`, `zero` and
    the like go before what the plan says, and data parallelism fills the cluster again. `tokens` is what to train on in
    all, such as "15T".
    `headroom` is the share of memory that plans leave free, 0.05 or "5%"; the chip's own reserve, if left out.
    `jitter` is the standard deviation of when ranks come to a collective, in seconds or "5us": all wait for the last.
    `endpoint` is what runs collectives on every chip, in place of its own: "dma", "in-switch".
    `lora_rank` trains adapters of that rank beside `lora_targets`, such as "q_proj,v_proj", with all weights frozen.
    `launch_text` is a file that starts a run, as `launch` writes it: its plan, batch, length and dtypes are simulated.
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
    compute: Annotated["str", COMPUTE] = "",
    lora_rank: LoraRank = None,
    lora_targets: LoraTargets = "",
    headroom: Headroom = None,
    jitter: Jitter = None,
    endpoint: Endpoint = "",
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
    rank_by: Annotated[
        "str | float | None",
        Option(
            "Rank plans by this quantile of their time, such as 90%, by how far published runs of their kind were off;"
            " the median, if left out.",
            "SHARE",
            FRACTION,
            no_form=NOT_YET,
        ),
    ] = None,
    limit: Annotated[
        "SupportsIndex",
        Option(
            "Plans of which layers and recompute are set by stage, at the most; what stays open is given as a gap.",
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
    framework: Annotated[
        "str",
        Option(f"Only plans that this framework runs as printed: {FRAMEWORKS}.", "NAME", no_form=NOT_YET),
    ] = "",
    framework_version: Annotated[
        "str", Option("A release of the framework, such as 0.2.2; the newest known, if left out.", "V", no_form=NOT_YET)
    ] = "",
    fit_probability: Annotated[
        "str | float | None",
        Option(
            "How likely plans must fit, at the least, by our error of memory; 95%, if neither it nor --headroom is"
            " given.",
            "SHARE",
            FRACTION,
            no_form=NOT_YET,
        ),
    ] = None,
    tokens: Tokens = "",
    price: Price = "",
    profile: Profile = "",
    progress: "Tell | bool" = False,
) -> "Planning":
    """Find the best plan for a model on a cluster, and prove it.

    `spec`, `model`, `cluster` and the counts are as `simulate` takes them. `top` is how many plans come back, no two
    of the same degrees; `objective` is time, tokens/s, tokens/s/$, tokens/J or headroom; `rank_by` is a quantile of
    time to rank plans by, 0.9 or "90%", not the median; `limit` is of how many plans layers and recompute are set by
    stage. `fix` and `forbid` are as the command's: "tp=8", "uneven"; `tp=8` fixes too. `framework` keeps the search to
    plans that a framework, by `framework_version`, runs as printed; without it the best
    of each framework comes back as well. Plans fit with `fit_probability` at the least, 0.95 if it and `headroom` are
    left out. `endpoint`, `tokens`, `price` and `profile` are as `simulate` takes them.

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
    framework: Annotated["str", Option(f"{FRAMEWORKS}.", "NAME")] = "",
    framework_version: Annotated[
        "str", Option("A release of the framework, such as 0.2.2; the newest known, if left out.", "V")
    ] = "",
    wrapper: Annotated[
        "str", Option("Wrap it for a batch system: slurm or kubernetes.", "NAME", no_form="the page shows the script")
    ] = "",
    model: Model = "",
    cluster: Cluster = "",
    devices: Devices = None,
    plan: Annotated["PlanLike", Option("A plan: name, file, or tp=8,pp=4,zero=1.", "PLAN", VALUE)] = "",
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
) -> "LaunchScript":
    """What starts a plan with a training framework.

    `framework` is megatron-lm, megatron-bridge, torchtitan, deepspeed, fsdp2 or maxtext, by `framework_version` if that
    is not the newest. `wrapper` is the batch system to start it by: slurm or kubernetes. The other arguments are those
    of `simulate`. What the framework has no words for is named: not expressed.
    """
    request = LaunchRequest.of_arguments(locals())
    from dovetail.api.launched import launched

    return launched(request)


class LaunchRequest(Request, of=launch):
    """What `dovetail launch` and `dovetail.launch` are asked."""
