"""The options of `dovetail plan`, as Typer has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.html_option import Html
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
RANKS_HELP = "Whose timeline to write: 0-7 or 0,2. Otherwise one device of each stage."
PROFILE_HELP = "A trace of PyTorch's profiler or Chakra: measured times go before predictions."
COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="A model: name, file or Hugging Face config.json.")] = "",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="A cluster: name or file.")] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help="Devices of a catalogue cluster.")] = None,
    global_batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    compute: Annotated[str, typer.Option(metavar="DTYPE", help=COMPUTE_HELP)] = "",
    top: Annotated[str, typer.Option(metavar="N", help=TOP_HELP)] = "10",
    objective: Annotated[str, typer.Option(metavar="NAME", help=OBJECTIVE_HELP)] = "time",
    limit: Annotated[str, typer.Option(metavar="N", help=LIMIT_HELP)] = "2000",
    fix: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=FIX_HELP)] = None,
    forbid: Annotated[list[str] | None, typer.Option(metavar="FEATURE", help=FORBID_HELP)] = None,
    profile: Annotated[str, typer.Option(metavar="FILE", help=PROFILE_HELP)] = "",
    plan_file: Annotated[str, typer.Option(metavar="FILE", help=PLAN_FILE_HELP)] = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    ranks: Annotated[str, typer.Option(metavar="RANKS", help=RANKS_HELP)] = "",
    html: Html = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that stands.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
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
    from dovetail.api.plan_commands import PlanAsked
    from dovetail.cli.asked import count

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
    from dovetail.api.asked import asked_of
    from dovetail.cli.asked import count

    return asked_of(
        spec, model=model, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, compute=compute,
        profile=profile, read=count,
    )  # fmt: skip
