"""The options of `dovetail mine`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.engines import DASK_HELP, WORKERS_HELP, EngineAsked, engine_asked
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.mine_search import MineAsked
    from dovetail.files.mining import MiningSaid

SPEC_HELP = "A model (name, file or Hugging Face config.json), or a spec with models, a plan and a chip."
METRIC_HELP = "What to be best by: throughput, perf/tdp, tokens/J or $/token."
AREA_HELP = "Silicon at the most, such as '606.68 mm2'; that, if nothing is said."
POWER_HELP = "Power with everything busy at the most, such as '280 W'; that, if nothing is said."
ALGORITHM_HELP = (
    "exact (to a proof), critical-path and critical-path-exact (WHAM's), random, grid, anneal, genetic, bayes; tpe and"
    " nsga2 need the extra search."
)
BASE_HELP = "The template chip whose memory, clock and links all designs have; tpuv2-like, if none."
BATCH_HELP = "Samples of one step; if left out, as many as fit one device."
BUDGET_HELP = "Designs to look at, at the most; if left out, exact goes on to its proof and others stop at 500."
DEVICES_HELP = "Ask the planner for the best plan on so many chips of the base, in a torus; for a job without a plan."
FIX_HELP = "With --devices: what the plan must have, as in dovetail plan; may be given again."
FORBID_HELP = "With --devices: what the plan must not have, as in dovetail plan; may be given again."
STAGES_HELP = (
    "one design for all stages; mosaic: one for each kind of stage, every die within the limits; pooled: the same, the"
    " limits kept on the mean over all devices. one, if nothing is said."
)
KEEP_HELP = "How many of the best designs of each kind of stage to choose from; 10, if nothing is said."
REPLAN_HELP = "Say too which plan the planner would choose on the best chip."
SEED_HELP = "Of algorithms that draw; the same seed, the same answer; 1, if none."
STORE_HELP = "Keep every design that was scheduled in this file, and go on from there another time."


def mine(
    spec: Annotated[str, typer.Argument(metavar="MODEL|SPEC", help=SPEC_HELP)],
    metric: Annotated[str, typer.Option(metavar="NAME", help=METRIC_HELP)] = "throughput",
    area: Annotated[str, typer.Option(metavar="AREA", help=AREA_HELP)] = "",
    power: Annotated[str, typer.Option(metavar="POWER", help=POWER_HELP)] = "",
    algorithm: Annotated[str, typer.Option(metavar="NAME", help=ALGORITHM_HELP)] = "exact",
    base: Annotated[str, typer.Option(metavar="CHIP", help=BASE_HELP)] = "",
    batch: Annotated[str | None, typer.Option(metavar="N", help=BATCH_HELP)] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    devices: Annotated[str | None, typer.Option(metavar="N", help=DEVICES_HELP)] = None,
    fix: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=FIX_HELP)] = None,
    forbid: Annotated[list[str] | None, typer.Option(metavar="FEATURE", help=FORBID_HELP)] = None,
    stages: Annotated[str, typer.Option(metavar="one|mosaic|pooled", help=STAGES_HELP)] = "",
    keep: Annotated[str | None, typer.Option(metavar="N", help=KEEP_HELP)] = None,
    replan: Annotated[bool, typer.Option("--replan", help=REPLAN_HELP)] = False,
    budget: Annotated[str | None, typer.Option(metavar="N", help=BUDGET_HELP)] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help=SEED_HELP)] = None,
    store: Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)] = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    dask: Annotated[str, typer.Option(metavar="ADDRESS", help=DASK_HELP)] = "",
    html: Html = "",
    top: Annotated[str, typer.Option(metavar="N", help="How many designs to show.")] = "10",
    as_json: AsJson = False,
) -> None:
    """Find the best chip to train a model, or several, and prove it.

    Tensor and vector cores of any number and size within an area and a power, around the memory and links of a template
    chip. Every design is scheduled, operator by operator, or shown to be no better by a bound.
    """
    return _answered(
        engine_asked(workers, dask),
        _asked(
            spec,
            _said(
                base=base, area=area, power=power, batch=batch, seq=seq, devices=devices, stages=stages, keep=keep,
                fix=fix, forbid=forbid,
            ),
            metric=metric, algorithm=algorithm, budget=budget, seed=seed, top=top, replan=replan,
        ),
        store=store, html=html, as_json=as_json,
    )  # fmt: skip


def _answered(engine: EngineAsked, asked: MineAsked, *, store: str, html: str, as_json: bool) -> None:
    from dovetail.cli.around import Terminal
    from dovetail.cli.mine import answer

    if not answer(asked, Terminal(asked=engine, file=store), as_json=as_json, html=html):
        raise typer.Exit(EXIT_INFEASIBLE)


def _asked(
    spec: str, said: MiningSaid, *, metric: str, algorithm: str, budget: str | None, seed: str | None, top: str,
    replan: bool,
) -> MineAsked:  # fmt: skip
    """What was typed, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.mine_search import MineAsked

    return MineAsked(
        spec=spec,
        said=said,
        metric=metric,
        algorithm=algorithm,
        num_most=count("--budget", budget),
        seed=count("--seed", seed),
        num_best=count("--top", top),
        is_replanned=replan,
    )


def _said(
    *, base: str, area: str, power: str, batch: str | None, seq: str | None, devices: str | None, stages: str,
    keep: str | None, fix: list[str] | None, forbid: list[str] | None,
) -> MiningSaid:  # fmt: skip
    """What was typed in place of a spec, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.files.mining import MiningSaid
    from dovetail.files.mining_stages import StagesSaid

    return MiningSaid(
        base=base,
        area=area,
        power=power,
        batch=count("--batch", batch),
        seq=count("--seq", seq),
        stages=StagesSaid(
            devices=count("--devices", devices),
            stages=stages,
            num_kept=count("--keep", keep),
            fixed=tuple(fix or ()),
            forbidden=tuple(forbid or ()),
        ),
    )
