"""The options of `dovetail mine`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.process import EXIT_INFEASIBLE

SPEC_HELP = "A model (name, file or Hugging Face config.json), or a spec with models, a plan and a chip."
METRIC_HELP = "What to be best by: throughput, perf/tdp, tokens/J or $/token."
AREA_HELP = "Silicon at the most, such as '606.68 mm2'; that, if nothing is said."
POWER_HELP = "Power with everything busy at the most, such as '280 W'; that, if nothing is said."
ALGORITHM_HELP = (
    "exact (to a proof), critical-path (WHAM's), random, grid, anneal, genetic, bayes; tpe and nsga2 need"
    " dovetail[search]."
)
BASE_HELP = "The template chip whose memory, clock and links all designs have; tpuv2-like, if none."
BATCH_HELP = "Samples of one step; if left out, as many as fit one device."
BUDGET_HELP = "Designs to look at, at the most; if left out, exact goes on to its proof and others stop at 500."
STORE_HELP = "Keep every design that was scheduled in this file, and go on from there another time."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."


def mine(
    spec: Annotated[str, typer.Argument(metavar="MODEL|SPEC", help=SPEC_HELP)],
    metric: Annotated[str, typer.Option(metavar="NAME", help=METRIC_HELP)] = "throughput",
    area: Annotated[str, typer.Option(metavar="AREA", help=AREA_HELP)] = "",
    power: Annotated[str, typer.Option(metavar="POWER", help=POWER_HELP)] = "",
    algorithm: Annotated[str, typer.Option(metavar="NAME", help=ALGORITHM_HELP)] = "exact",
    base: Annotated[str, typer.Option(metavar="CHIP", help=BASE_HELP)] = "",
    batch: Annotated[str | None, typer.Option(metavar="N", help=BATCH_HELP)] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="N", help=BUDGET_HELP)] = None,
    seed: Annotated[str, typer.Option(metavar="N", help="Of algorithms that draw; the same seed, the same answer.")] = (
        "1"
    ),
    store: Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)] = "",
    top: Annotated[str, typer.Option(metavar="N", help="How many designs to show.")] = "10",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Find the best chip to train a model, or several, and prove it.

    Tensor and vector cores of any number and size within an area and a power, around the memory and links of a template
    chip. Every design is scheduled, operator by operator, or shown to be no better by a bound.
    """
    from dovetail.cli.asked import count
    from dovetail.cli.mine import MineAsked, answer
    from dovetail.files.mining import MiningSaid

    said = MiningSaid(base=base, area=area, power=power, batch=count("--batch", batch), seq=count("--seq", seq))
    asked = MineAsked(
        spec=spec, said=said, metric=metric, algorithm=algorithm, num_most=count("--budget", budget),
        seed=count("--seed", seed), store=store, num_best=count("--top", top),
    )  # fmt: skip
    if not answer(asked, as_json=as_json):
        raise typer.Exit(EXIT_INFEASIBLE)
