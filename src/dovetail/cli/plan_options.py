"""The options of `dovetail plan`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli import job_options as job
from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.process import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from dovetail.api.asked import Asked
    from dovetail.api.plan_commands import PlanAsked

SPEC_HELP = "A spec file: workload, cluster, and if there are any, space and your own plan."
TOP_HELP = "How many plans to show, no two of the same degrees."
OBJECTIVE_HELP = "time, tokens/s, tokens/s/$, tokens/J or headroom."
FIX_HELP = "Choose from these values only: tp=8, zero_stage=1,2, overlap.tensor=true. Repeat it for other keys."
FORBID_HELP = (
    "Leave out tensor, sequence, context, pipeline, interleave, expert, zero, recompute or uneven (stages that differ),"
    " or values: tp=1,2; repeatable."
)
LIMIT_HELP = "Plans of which layers and recompute are set by stage, at the most; what stays open is said as a gap."
PLAN_FILE_HELP = "Write the best plan to this file, whole, as simulate --plan takes it."
PERFETTO_HELP = "Write the timeline of a step by the best plan, device by device, for ui.perfetto.dev."


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    model: job.Model = "",
    cluster: job.Cluster = "",
    devices: job.Devices = None,
    global_batch: job.GlobalBatch = None,
    seq: job.Seq = None,
    compute: job.Compute = "",
    top: Annotated[str, typer.Option(metavar="N", help=TOP_HELP)] = "10",
    objective: Annotated[str, typer.Option(metavar="NAME", help=OBJECTIVE_HELP)] = "time",
    limit: Annotated[str, typer.Option(metavar="N", help=LIMIT_HELP)] = "2000",
    fix: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=FIX_HELP)] = None,
    forbid: Annotated[list[str] | None, typer.Option(metavar="FEATURE", help=FORBID_HELP)] = None,
    profile: job.Profile = "",
    plan_file: Annotated[str, typer.Option(metavar="FILE", help=PLAN_FILE_HELP)] = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    ranks: job.Ranks = "",
    html: Html = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that stands.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the best plan for a model on a cluster, and prove it.

    Without SPEC, give --model and --cluster. Every plan of the space is evaluated or shown to be no better: degrees,
    interleave, ZeRO, microbatch, the order of axes on the network, layers and recompute by stage.
    """
    return _answered(
        _wanted(objective=objective, top=top, limit=limit, fix=fix, forbid=forbid, plan_file=plan_file, force=force),
        _asked(
            spec,
            model=model,
            cluster=cluster,
            devices=devices,
            global_batch=global_batch,
            seq=seq,
            compute=compute,
            profile=profile,
        ),
        html=html,
        perfetto=perfetto,
        ranks=ranks,
        as_json=as_json,
    )


def _answered(wanted: PlanAsked, asked: Asked, *, html: str, perfetto: str, ranks: str, as_json: bool) -> None:
    from dovetail.cli.plan import answer

    if not answer(asked, wanted, as_json=as_json, html=html, perfetto=perfetto, ranks=ranks):
        raise typer.Exit(EXIT_INFEASIBLE)


def _wanted(
    *,
    objective: str,
    top: str,
    limit: str,
    fix: list[str] | None,
    forbid: list[str] | None,
    plan_file: str,
    force: bool,
) -> PlanAsked:
    """What was typed of plans, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.plan_commands import PlanAsked

    return PlanAsked(
        objective=objective,
        num_best=count("--top", top),
        num_refined=count("--limit", limit),
        fixed=tuple(fix or ()),
        forbidden=tuple(forbid or ()),
        plan_file=plan_file,
        is_forced=force,
    )


def _asked(
    spec: str,
    *,
    model: str,
    cluster: str,
    devices: str | None,
    global_batch: str | None,
    seq: str | None,
    compute: str,
    profile: str,
) -> Asked:
    """What was typed of the model and the cluster, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.api.asked import asked_of

    return asked_of(
        spec, model=model, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, compute=compute,
        profile=profile, read=count,
    )  # fmt: skip
