"""The options of `dovetail plan`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.process import EXIT_INFEASIBLE

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
    plan_file: Annotated[str, typer.Option(metavar="FILE", help=PLAN_FILE_HELP)] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that stands.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Find the best plan for a model on a cluster, and prove it.

    Without SPEC, give --model and --cluster. Every plan of the space is evaluated or shown to be no better: degrees,
    interleave, ZeRO, microbatch, the order of axes on the network, layers and recompute by stage.
    """
    from dovetail.cli.asked import asked_of, count
    from dovetail.cli.plan import PlanAsked, answer

    asked = asked_of(
        spec=spec, model=model, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, compute=compute
    )
    num_best, num_refined = count("--top", top), count("--limit", limit)
    wanted = PlanAsked(
        objective=objective, num_best=num_best, num_refined=num_refined, fixed=tuple(fix or ()),
        forbidden=tuple(forbid or ()), plan_file=plan_file, is_forced=force,
    )  # fmt: skip
    if not answer(asked, wanted, as_json=as_json):
        raise typer.Exit(EXIT_INFEASIBLE)
