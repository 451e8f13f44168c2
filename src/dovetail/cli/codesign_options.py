"""The options of `dovetail codesign`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli import joint_options as joint
from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.engines import DASK_HELP, WORKERS_HELP, EngineAsked, engine_asked
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.codesign_search import CodesignAsked
    from dovetail.files.codesign import CodesignSaid

METRIC_HELP = "What to be best by: throughput, perf/tdp, tokens/J or $/token."
EXHAUSTIVE_HELP = "Score every system within the limits, to check what bounds leave out."
SENSITIVITY_HELP = "Say what binds and what more would buy; left out, where that takes a moment."
SPEC_FILE_HELP = "Write the best system and its plan to this file, a spec for simulate; of several models, a file each."
OWN_BEST_HELP = "Of several models, also search for each one alone, and say how far behind its own best it is."
COMPARE_HELP = "Also search one after the other: plan then chip, chip then plan."
ALGORITHM_HELP = (
    "exact (to a proof), or a black box, which proves nothing: random, grid, anneal, genetic, bayes, critical-path,"
    " critical-path-exact; tpe and nsga2 need the extra search."
)
BUDGET_HELP = "Points a black box looks at, at the most; 500, if left out."
SEED_HELP = "Of black boxes that draw; the same seed, the same answer; 1, if left out."


def codesign(
    spec: joint.Spec = "",
    metric: Annotated[str, typer.Option(metavar="NAME", help=METRIC_HELP)] = "throughput",
    preset: joint.Preset = "",
    base: joint.Base = "",
    network: joint.Network = "",
    devices: joint.Devices = None,
    endpoint: joint.Endpoint = "",
    area: joint.Area = "",
    power: joint.Power = "",
    batch: joint.Batch = None,
    seq: joint.Seq = None,
    algorithm: Annotated[str, typer.Option(metavar="NAME", help=ALGORITHM_HELP)] = "exact",
    budget: Annotated[str | None, typer.Option(metavar="N", help=BUDGET_HELP)] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help=SEED_HELP)] = None,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help=EXHAUSTIVE_HELP)] = False,
    compare: Annotated[bool, typer.Option("--compare", help=COMPARE_HELP)] = False,
    sensitivity: Annotated[bool | None, typer.Option(help=SENSITIVITY_HELP)] = None,
    own_best: Annotated[bool, typer.Option("--own-best", help=OWN_BEST_HELP)] = False,
    store: joint.Store = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    dask: Annotated[str, typer.Option(metavar="ADDRESS", help=DASK_HELP)] = "",
    spec_file: Annotated[str, typer.Option(metavar="FILE", help=SPEC_FILE_HELP)] = "",
    html: Html = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a spec file that stands.")] = False,
    top: Annotated[str, typer.Option(metavar="N", help="How many other systems to show.")] = "5",
    as_json: AsJson = False,
) -> None:
    """Find the best chip, plan and network together, and prove it.

    Every system of a space, cores, memories, clock, links and devices, with every plan of its models: bounded, scored
    where it may win, and refined where stages may be uneven. Without a spec, a small example.
    """
    return _answered(
        engine_asked(workers, dask),
        _asked(
            spec,
            joint.said_of(
                preset=preset, base=base, network=network, devices=devices, endpoint=endpoint, area=area, power=power,
                batch=batch, seq=seq,
            ),
            metric=metric, top=top, algorithm=algorithm, budget=budget, seed=seed, exhaustive=exhaustive,
            compare=compare, sensitivity=sensitivity, own_best=own_best,
        ),
        store=store, spec_file=spec_file, html=html, force=force, as_json=as_json,
    )  # fmt: skip


def _answered(
    engine: EngineAsked, asked: CodesignAsked, *, store: str, spec_file: str, html: str, force: bool, as_json: bool
) -> None:
    from dovetail.cli.around import Terminal
    from dovetail.cli.codesign import answer

    terminal = Terminal(asked=engine, file=store)
    if not answer(asked, terminal, as_json=as_json, html=html, spec_file=spec_file, is_forced=force):
        raise typer.Exit(EXIT_INFEASIBLE)


def _asked(
    spec: str, said: CodesignSaid, *, metric: str, top: str, algorithm: str, budget: str | None, seed: str | None,
    exhaustive: bool, compare: bool, sensitivity: bool | None, own_best: bool,
) -> CodesignAsked:  # fmt: skip
    """What was typed, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.codesign_search import CodesignAsked

    return CodesignAsked(
        spec=spec,
        said=said,
        metric=metric,
        num_shown=count("--top", top),
        algorithm=algorithm,
        num_most=count("--budget", budget),
        seed=count("--seed", seed),
        is_exhaustive=exhaustive,
        is_compared=compare,
        has_sensitivity=sensitivity,
        has_own_bests=own_best,
    )
