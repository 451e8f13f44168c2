"""The options of `dovetail simulate`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli import job_options as job
from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.process import EXIT_INFEASIBLE

SPEC_HELP = "A spec file: workload, cluster and plan."
TOKENS_HELP = "Tokens to train on in all, such as 15T: how long that takes."
PERFETTO_HELP = "Write the step's timeline, device by device, for ui.perfetto.dev."


def simulate(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    model: job.Model = "",
    cluster: job.Cluster = "",
    devices: job.Devices = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="A plan: name, file, or auto for the best.")] = "",
    global_batch: job.GlobalBatch = None,
    seq: job.Seq = None,
    compute: job.Compute = "",
    tokens: Annotated[str, typer.Option(metavar="N", help=TOKENS_HELP)] = "",
    profile: job.Profile = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    ranks: job.Ranks = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Predict one training step: time, memory, energy, limits.

    SPEC is a file; options override what it says. Without one, give --model, --cluster and --plan.
    """
    from dovetail.api.arguments import count, num_tokens
    from dovetail.api.asked import asked_of
    from dovetail.cli.simulate import answer

    asked = asked_of(
        spec, model=model, cluster=cluster, plan=plan, devices=devices, global_batch=global_batch, seq=seq,
        compute=compute, profile=profile, read=count,
    )  # fmt: skip
    many = num_tokens("--tokens", tokens)
    if not answer(asked, as_json=as_json, num_tokens=many, html=html, perfetto=perfetto, ranks=ranks):
        raise typer.Exit(EXIT_INFEASIBLE)
