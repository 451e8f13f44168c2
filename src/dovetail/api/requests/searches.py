"""Calls that search for hardware: `mine` for a chip, `codesign` for chip, plan and network, `pareto` for a front.

As in `jobs`, a parameter here is an option of the command, a field of the request and, with a `form` label, of the
explorer's form.
"""

# Annotations are evaluated here: the options in them are what commands and forms are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.jobs import Headroom
from dovetail.api.requests.option import (
    COUNT,
    FLAG,
    NAMES,
    REPEATED,
    SWITCH,
    Option,
    Request,
    argument,
    python_call,
)

if TYPE_CHECKING:
    from collections.abc import Sequence  # in annotations that are text
    from os import PathLike
    from typing import SupportsIndex

    from dovetail.api.codesigned import Codesign
    from dovetail.api.fronts import Front
    from dovetail.api.mined import Mining
    from dovetail.api.progress import Tell
    from dovetail.files.python_values import SpecLike

EXACT = "exact"  # by bounds, to a proof
AXES = "throughput,area,power,cost"

NOT_YET = "pages search to a proof, with what the space has"
OF_SERVER = "the person who starts the explorer sets it"
METRIC = Option("What to be best by: throughput, perf/tdp, tokens/J or $/token.", "NAME", form="Best by")
Workers = Annotated[
    "SupportsIndex | None",
    Option(
        "Processes of this machine to spread the search over; the answer is the same.", "N", COUNT, no_form=OF_SERVER
    ),
]
Dask = Annotated[
    "str",
    Option(
        "The scheduler of a Dask cluster to spread it over, such as tcp://host:8786; needs the extra cluster.",
        "ADDRESS",
        no_form=OF_SERVER,
    ),
]

# Of `codesign` and `pareto`.
SpecOfSystems = Annotated[
    "SpecLike",
    argument(
        "A model (name, file or config.json), or a spec with models, chip, devices, budget and plans.", "[MODEL|SPEC]"
    ),
]
Preset = Annotated[
    "str",
    Option(
        "The space of systems: chip (cores and memories), cores (WHAM's), phaze (its 29,360 chips).",
        "NAME",
        form="Space of chips",
    ),
]
Base = Annotated[
    "str",
    Option("The template chip that systems are built on; the space's own, if none.", "CHIP", form="Base chip"),
]
Network = Annotated[
    "str",
    Option(
        "How devices are joined, one or some of pod (the base's), torus, switch and others; the space's own, if none.",
        "NAMES",
        form="Network",
    ),
]
Devices = Annotated[
    "SupportsIndex | None",
    Option("How many devices there are; as many as the space gives, if left out.", "N", COUNT, form="Devices"),
]
Endpoint = Annotated[
    "str",
    Option(
        "Who runs collectives, one or some to choose from, such as sm,dma,ace; the base's, if left out.",
        "NAMES",
        no_form=NOT_YET,
    ),
]
Area = Annotated[
    "str",
    Option(
        "Silicon of a chip at the most, such as '600 mm2'; the base's without limits, none in space phaze.",
        "AREA",
        form="Chip area at most",
        placeholder="600 mm2",
    ),
]
Power = Annotated[
    "str",
    Option(
        "Power of a chip with everything busy at the most, such as '300 W'; the base's without limits, none in"
        " space phaze.",
        "POWER",
        form="Chip power at most",
        placeholder="300 W",
    ),
]
Batch = Annotated["SupportsIndex | None", Option("Global batch: samples per step.", "N", COUNT, form="Global batch")]
Seq = Annotated[
    "SupportsIndex | None",
    Option("Sequence length of a sample.", "N", COUNT, no_form="the address alone has it: links from a plan carry it"),
]
Store = Annotated[
    "str | PathLike[str]",
    Option(
        "Keep every system that was scored in this file, and go on from there another time.", "FILE", no_form=OF_SERVER
    ),
]


@python_call
def mine(
    spec: Annotated[
        "SpecLike",
        argument(
            "A model (name, file or Hugging Face config.json), or a spec with models, a plan and a chip.", "MODEL|SPEC"
        ),
    ],
    *,
    metric: Annotated["str", METRIC] = "throughput",
    area: Annotated["str", Option("Silicon at the most, such as '606.68 mm2'; that, by default.", "AREA")] = "",
    power: Annotated[
        "str", Option("Power with everything busy at the most, such as '280 W'; that, by default.", "POWER")
    ] = "",
    algorithm: Annotated[
        "str",
        Option(
            "exact (to a proof), critical-path and critical-path-exact (WHAM's), random, grid, anneal, genetic, bayes;"
            " tpe and nsga2 need the extra search.",
            "NAME",
        ),
    ] = EXACT,
    base: Annotated[
        "str",
        Option("The template chip whose memory, clock and links all designs have; tpuv2-like, if none.", "CHIP"),
    ] = "",
    batch: Annotated[
        "SupportsIndex | None",
        Option("Global batch: samples per step; if left out, as many as fit one device.", "N", COUNT),
    ] = None,
    seq: Seq = None,
    headroom: Headroom = None,
    devices: Annotated[
        "SupportsIndex | None",
        Option(
            "Find the best plan on this many chips of the base, in a torus; for a job without a plan.",
            "N",
            COUNT,
        ),
    ] = None,
    fix: Annotated[
        "Sequence[str]",
        Option(
            "With --devices: what the plan must have, as in dovetail plan; may be given again.", "KEY=VALUE", REPEATED
        ),
    ] = (),
    forbid: Annotated[
        "Sequence[str]",
        Option(
            "With --devices: what the plan must not have, as in dovetail plan; may be given again.",
            "FEATURE",
            REPEATED,
        ),
    ] = (),
    stages: Annotated[
        "str",
        Option(
            "one design for all stages; mosaic: one for each kind of stage, every die within the limits; pooled: the"
            " same, the limits kept on the mean over all devices. one, by default.",
            "one|mosaic|pooled",
        ),
    ] = "",
    keep: Annotated[
        "SupportsIndex | None",
        Option("How many of the best designs of each kind of stage to choose from; 10, by default.", "N", COUNT),
    ] = None,
    replan: Annotated[
        "bool", Option("Report also which plan the planner would choose on the best chip.", kind=FLAG)
    ] = False,
    budget: Annotated[
        "SupportsIndex | None",
        Option(
            "Designs to look at, at the most; if left out, exact goes on to its proof and others stop at 500.",
            "N",
            COUNT,
        ),
    ] = None,
    seed: Annotated[
        "SupportsIndex | None",
        Option("Of algorithms that draw; the same seed, the same answer; 1, if none.", "N", COUNT),
    ] = None,
    store: Annotated[
        "str | PathLike[str]",
        Option("Keep every design that was scheduled in this file, and go on from there another time.", "FILE"),
    ] = "",
    workers: Workers = None,
    dask: Dask = "",
    top: Annotated["SupportsIndex", Option("How many designs to show.", "N", COUNT)] = 10,
    progress: "Tell | bool" = False,
) -> "Mining":
    """Find the best chip to train a model, or several, and prove it.

    `spec` is a model (name, file, mapping or value), or a spec with models, a plan and a chip. `area` and `power` are
    limits such as "606.68 mm2" and "280 W", which are also what holds by default. With `devices`, the planner
    is asked for a plan on so many chips, which `fix` and `forbid` may bind. `stages` is one, mosaic or pooled.
    """
    request = MineRequest.of_arguments(locals())
    from dovetail.api.mined import mined_for
    from dovetail.api.search_context import called

    with called(progress, store=request.store, num_workers=request.workers, dask=request.dask) as context:
        return mined_for(request, context)


class MineRequest(Request, of=mine):
    """What `dovetail mine` and `dovetail.mine` are asked."""


@python_call
def codesign(
    spec: SpecOfSystems = "",
    *,
    metric: Annotated["str", METRIC] = "throughput",
    preset: Preset = "",
    base: Base = "",
    network: Network = "",
    devices: Devices = None,
    endpoint: Endpoint = "",
    area: Area = "",
    power: Power = "",
    batch: Batch = None,
    seq: Seq = None,
    headroom: Headroom = None,
    algorithm: Annotated[
        "str",
        Option(
            "exact (to a proof), or a black box, which proves nothing: random, grid, anneal, genetic, bayes,"
            " critical-path, critical-path-exact; tpe and nsga2 need the extra search.",
            "NAME",
            no_form=NOT_YET,
        ),
    ] = EXACT,
    budget: Annotated[
        "SupportsIndex | None",
        Option("Points a black box looks at, at the most; 500, if left out.", "N", COUNT, no_form=NOT_YET),
    ] = None,
    seed: Annotated[
        "SupportsIndex | None",
        Option(
            "Of black boxes that draw; the same seed, the same answer; 1, if left out.", "N", COUNT, no_form=NOT_YET
        ),
    ] = None,
    exhaustive: Annotated[
        "bool",
        Option("Score every system within the limits, to check what bounds leave out.", kind=FLAG, no_form=NOT_YET),
    ] = False,
    compare: Annotated[
        "bool", Option("Also search one after the other: plan then chip, chip then plan.", kind=FLAG, no_form=NOT_YET)
    ] = False,
    sensitivity: Annotated[
        "bool | None",
        Option(
            "Report what binds and what more would gain; by default where that is quick.",
            kind=SWITCH,
            no_form=NOT_YET,
        ),
    ] = None,
    per_model_best: Annotated[
        "bool",
        Option(
            "Of several models, also search for each one alone, and report how much slower than its own best it is.",
            kind=FLAG,
            old_flag="--own-best",
            no_form="a page is of one model",
        ),
    ] = False,
    store: Store = "",
    workers: Workers = None,
    dask: Dask = "",
    top: Annotated[
        "SupportsIndex", Option("How many other systems to show.", "N", COUNT, no_form="the page shows the usual")
    ] = 5,
    progress: "Tell | bool" = False,
) -> "Codesign":
    """Find the best chip, plan and network together, and prove it.

    `spec` is a model (name, file, mapping or value), or a spec with models, chip, devices, budget and plans; without
    one, a small example. `area` and `power` are a chip's limits, such as "600 mm2" and "300 W". `store` is a file
    that keeps every system that was scored, to go on from. `workers` processes, or the `dask` cluster at an address,
    share the work. `progress` is called with a `Progress` as the search goes on; what it raises ends the search.
    """
    request = CodesignRequest.of_arguments(locals())
    from dovetail.api.codesigned import codesigned
    from dovetail.api.search_context import called

    with called(progress, store=request.store, num_workers=request.workers, dask=request.dask) as context:
        return codesigned(request, context)


class CodesignRequest(Request, of=codesign):
    """What `dovetail codesign` and `dovetail.codesign` are asked."""


@python_call
def pareto(
    spec: SpecOfSystems = "",
    *,
    axes: Annotated[
        "str | Sequence[str]",
        Option(
            "Of throughput (or another metric), area, power, cost and energy, two or more; area to cost of all"
            " devices.",
            "NAMES",
            NAMES,
            form="Axes",
        ),
    ] = AXES,
    preset: Preset = "",
    base: Base = "",
    network: Network = "",
    devices: Devices = None,
    endpoint: Endpoint = "",
    area: Area = "",
    power: Power = "",
    batch: Batch = None,
    seq: Seq = None,
    headroom: Headroom = None,
    store: Store = "",
    workers: Workers = None,
    dask: Dask = "",
    top: Annotated[
        "SupportsIndex", Option("How many systems of the front to show.", "N", COUNT, no_form="the page draws all")
    ] = 20,
    progress: "Tell | bool" = False,
) -> "Front":
    """Find every system that no other beats: the exact Pareto front.

    `axes` are two or more of throughput (or another metric), area, power, cost and energy, as one text with commas or
    as a list. The other arguments are those of `codesign`; `top` is how many systems the text shows.
    """
    request = ParetoRequest.of_arguments(locals())
    from dovetail.api.fronts import fronted
    from dovetail.api.search_context import called

    with called(progress, store=request.store, num_workers=request.workers, dask=request.dask) as context:
        return fronted(request, context)


class ParetoRequest(Request, of=pareto):
    """What `dovetail pareto` and `dovetail.pareto` are asked."""
