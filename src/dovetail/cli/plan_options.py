"""The options of `dovetail plan`, as Typer has them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dovetail.cli.html_option import Html
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
PERFETTO_HELP = "Write the timeline of a step by the best plan, device by device, for ui.perfetto.dev."
RANKS_HELP = "Whose timeline to write: 0-7 or 0,2. Otherwise one device of each stage."
COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."
ASKED = ("spec", "model", "cluster", "devices", "global_batch", "seq", "compute")  # as simulate has them


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
    return _answered(dict(locals()))


def _answered(typed: dict[str, Any]) -> None:
    """Answers what was typed."""
    from dovetail.api.plan_commands import PlanAsked
    from dovetail.cli.asked import asked_of, count
    from dovetail.cli.plan import answer

    wanted = PlanAsked(
        objective=typed["objective"],
        num_best=count("--top", typed["top"]),
        num_refined=count("--limit", typed["limit"]),
        fixed=tuple(typed["fix"] or ()),
        forbidden=tuple(typed["forbid"] or ()),
        plan_file=typed["plan_file"],
        is_forced=typed["force"],
    )
    files = {name: typed[name] for name in ("html", "perfetto", "ranks")}
    if not answer(asked_of(**{name: typed[name] for name in ASKED}), wanted, as_json=typed["as_json"], **files):
        raise typer.Exit(EXIT_INFEASIBLE)
