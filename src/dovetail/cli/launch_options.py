"""The options of `dovetail launch`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.html_option import Html

SPEC_HELP = "A spec file: workload, cluster and plan."
FRAMEWORK_HELP = "megatron-lm, torchtitan or deepspeed."
OUTPUT_HELP = "Write it to this file: a script, or TOML for torchtitan."
PLAN_FILE_HELP = "Write the plan to this file too, whole, as simulate --plan takes it."
COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."


def launch(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    framework: Annotated[str, typer.Option(metavar="NAME", help=FRAMEWORK_HELP)] = "",
    output: Annotated[str, typer.Option(metavar="FILE", help=OUTPUT_HELP)] = "",
    plan_file: Annotated[str, typer.Option(metavar="FILE", help=PLAN_FILE_HELP)] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over files that stand.")] = False,
    model: Annotated[str, typer.Option(metavar="NAME", help="A model: name, file or Hugging Face config.json.")] = "",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="A cluster: name or file.")] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help="Devices of a catalogue cluster.")] = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="A plan: name or file.")] = "",
    global_batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    compute: Annotated[str | None, typer.Option(metavar="DTYPE", help=COMPUTE_HELP)] = None,
    html: Html = "",
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Print what starts a plan with a training framework.

    SPEC and its options are those of simulate. What the framework has no words for is named: not expressed.
    """
    from dovetail.api.asked import asked_of
    from dovetail.cli.asked import count
    from dovetail.cli.launch import LaunchAsked, answer

    asked = asked_of(
        spec, model=model, cluster=cluster, plan=plan, devices=devices, global_batch=global_batch, seq=seq,
        compute=compute, read=count,
    )  # fmt: skip
    wanted = LaunchAsked(
        framework=framework, output=output, plan_file=plan_file, is_forced=force, as_json=as_json, html=html
    )
    answer(asked, wanted)
