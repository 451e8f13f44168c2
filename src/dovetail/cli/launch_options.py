"""The options of `dovetail launch`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli import job_options as job
from dovetail.cli.answer_options import AsJson, Html

SPEC_HELP = "A spec file: workload, cluster and plan."
FRAMEWORK_HELP = "megatron-lm, torchtitan or deepspeed."
OUT_HELP = "Write it to this file: a script, or TOML for torchtitan."
PLAN_FILE_HELP = "Write the plan to this file too, whole, as simulate --plan takes it."


def launch(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    framework: Annotated[str, typer.Option(metavar="NAME", help=FRAMEWORK_HELP)] = "",
    out: Annotated[str, typer.Option(metavar="FILE", help=OUT_HELP)] = "",
    plan_file: Annotated[str, typer.Option(metavar="FILE", help=PLAN_FILE_HELP)] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over files that stand.")] = False,
    model: job.Model = "",
    cluster: job.Cluster = "",
    devices: job.Devices = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="A plan: name or file.")] = "",
    global_batch: job.GlobalBatch = None,
    seq: job.Seq = None,
    compute: job.Compute = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Print what starts a plan with a training framework.

    SPEC and its options are those of simulate. What the framework has no words for is named: not expressed.
    """
    from dovetail.api.arguments import count
    from dovetail.api.asked import asked_of
    from dovetail.cli.launch import LaunchAsked, answer

    asked = asked_of(
        spec, model=model, cluster=cluster, plan=plan, devices=devices, global_batch=global_batch, seq=seq,
        compute=compute, read=count,
    )  # fmt: skip
    wanted = LaunchAsked(framework=framework, out=out, plan_file=plan_file, is_forced=force, as_json=as_json, html=html)
    answer(asked, wanted)
