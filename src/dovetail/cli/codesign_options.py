"""The options of `dovetail codesign`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.engines import CLUSTER_HELP, WORKERS_HELP, engine_asked
from dovetail.cli.html_option import Html
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.codesign_search import CodesignAsked
    from dovetail.files.codesign import CodesignSaid

SPEC_HELP = "A model (name, file or config.json), or a spec with models, chip, devices, budget and plans."
METRIC_HELP = "What to be best by: throughput, perf/tdp, tokens/J or $/token."
PRESET_HELP = "The space of systems: chip (cores and memories), cores (WHAM's), phaze (its 29,360 chips)."
BASE_HELP = "The template chip that systems are built on; the space's own, if none."
NETWORK_HELP = "torus or flat; the space's own, if none."
DEVICES_HELP = "How many devices there are; as many as the space says, if left out."
ENDPOINT_HELP = "Who runs collectives, one or some to choose from, such as sm,dma,ace; the base's, if left out."
AREA_HELP = "Silicon of a chip at the most, such as '600 mm2'; a reticle, if left out, and no limit in space phaze."
POWER_HELP = "Power of a chip with everything busy at the most, such as '300 W'; no limit, if left out."
STORE_HELP = "Keep every system that was scored in this file, and go on from there another time."
EXHAUSTIVE_HELP = "Score every system within the limits, to check what bounds leave out."
SENSITIVITY_HELP = "Say what binds and what more would buy; left out, where that takes a moment."
SPEC_FILE_HELP = "Write the best system and its plan to this file, a spec for simulate; of several models, a file each."
OWN_BEST_HELP = "Of several models, also search for each one alone, and say how far behind its own best it is."
COMPARE_HELP = "Also search one after the other: plan then chip, chip then plan."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."
ALGORITHM_HELP = (
    "exact (to a proof), or a black box, which proves nothing: random, grid, anneal, genetic, bayes, critical-path,"
    " critical-path-exact; tpe and nsga2 need dovetail[search]."
)
BUDGET_HELP = "Points a black box looks at, at the most; 500, if left out."
SEED_HELP = "Of black boxes that draw; the same seed, the same answer; 1, if left out."


def codesign(
    spec: Annotated[str, typer.Argument(metavar="[MODEL|SPEC]", help=SPEC_HELP)] = "",
    metric: Annotated[str, typer.Option(metavar="NAME", help=METRIC_HELP)] = "throughput",
    preset: Annotated[str, typer.Option(metavar="NAME", help=PRESET_HELP)] = "",
    base: Annotated[str, typer.Option(metavar="CHIP", help=BASE_HELP)] = "",
    network: Annotated[str, typer.Option(metavar="NAME", help=NETWORK_HELP)] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help=DEVICES_HELP)] = None,
    endpoint: Annotated[str, typer.Option(metavar="NAMES", help=ENDPOINT_HELP)] = "",
    area: Annotated[str, typer.Option(metavar="AREA", help=AREA_HELP)] = "",
    power: Annotated[str, typer.Option(metavar="POWER", help=POWER_HELP)] = "",
    batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    algorithm: Annotated[str, typer.Option(metavar="NAME", help=ALGORITHM_HELP)] = "exact",
    budget: Annotated[str | None, typer.Option(metavar="N", help=BUDGET_HELP)] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help=SEED_HELP)] = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help=EXHAUSTIVE_HELP)] = False,
    compare: Annotated[bool, typer.Option("--compare", help=COMPARE_HELP)] = False,
    sensitivity: Annotated[bool | None, typer.Option(help=SENSITIVITY_HELP)] = None,
    own_best: Annotated[bool, typer.Option("--own-best", help=OWN_BEST_HELP)] = False,
    store: Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)] = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    cluster: Annotated[str, typer.Option(metavar="ADDRESS", help=CLUSTER_HELP)] = "",
    spec_file: Annotated[str, typer.Option(metavar="FILE", help=SPEC_FILE_HELP)] = "",
    html: Html = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a spec file that stands.")] = False,
    top: Annotated[str, typer.Option(metavar="N", help="How many other systems to show.")] = "5",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Find the best chip, plan and network together, and prove it.

    Every system of a space, cores, memories, clock, links and devices, with every plan of its models: bounded, scored
    where it may win, and refined where stages may be uneven. Without a spec, a small example.
    """
    return _answered(dict(locals()))


def _answered(typed: dict[str, Any]) -> None:
    """Answers what was typed."""
    from dovetail.cli.around import Terminal
    from dovetail.cli.codesign import answer

    terminal = Terminal(asked=engine_asked(typed["workers"], typed["cluster"]), file=typed["store"])
    files = {name: typed[name] for name in ("html", "spec_file")}
    if not answer(_asked(typed), terminal, as_json=typed["as_json"], is_forced=typed["force"], **files):
        raise typer.Exit(EXIT_INFEASIBLE)


def said_of(typed: dict[str, Any]) -> CodesignSaid:
    """What the options of every joint search say in place of a spec, with counts read."""
    from dovetail.cli.asked import count
    from dovetail.files.codesign import CodesignSaid

    counts: dict[str, Any] = {name: count(f"--{name}", typed[name]) for name in ("devices", "batch", "seq")}
    words: dict[str, Any] = {name: typed[name] for name in ("preset", "base", "network", "endpoint", "area", "power")}
    return CodesignSaid(**words, **counts)


def _asked(typed: dict[str, Any]) -> CodesignAsked:
    """What was typed, with counts read."""
    from dovetail.api.codesign_search import CodesignAsked
    from dovetail.cli.asked import count

    return CodesignAsked(
        spec=typed["spec"],
        said=said_of(typed),
        metric=typed["metric"],
        num_shown=count("--top", typed["top"]),
        algorithm=typed["algorithm"],
        num_most=count("--budget", typed["budget"]),
        seed=count("--seed", typed["seed"]),
        is_exhaustive=typed["exhaustive"],
        is_compared=typed["compare"],
        has_sensitivity=typed["sensitivity"],
        has_own_bests=typed["own_best"],
    )
