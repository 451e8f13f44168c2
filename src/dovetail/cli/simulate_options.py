"""The options of `dovetail simulate`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.html_option import Html
from dovetail.cli.process import EXIT_INFEASIBLE

SPEC_HELP = "A spec file: workload, cluster and plan."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."
COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
TOKENS_HELP = "Tokens to train on in all, such as 15T: how long that takes."
PERFETTO_HELP = "Write the step's timeline, device by device, for ui.perfetto.dev."
PROFILE_HELP = "A trace of PyTorch's profiler or Chakra: measured times go before predictions."
RANKS_HELP = "Whose timeline to write: 0-7 or 0,2. Otherwise one device of each stage."
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def simulate(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="A model: name, file or Hugging Face config.json.")] = "",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="A cluster: name or file.")] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help="Devices of a catalogue cluster.")] = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="A plan: name, file, or auto for the best.")] = "",
    global_batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    compute: Annotated[str | None, typer.Option(metavar="DTYPE", help=COMPUTE_HELP)] = None,
    tokens: Annotated[str, typer.Option(metavar="N", help=TOKENS_HELP)] = "",
    profile: Annotated[str, typer.Option(metavar="FILE", help=PROFILE_HELP)] = "",
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    ranks: Annotated[str, typer.Option(metavar="RANKS", help=RANKS_HELP)] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Predict one training step: time, memory, energy, limits.

    SPEC is a file; options override what it says. Without one, give --model, --cluster and --plan.
    """
    from dovetail.api.asked import asked_of
    from dovetail.cli.asked import count, num_tokens
    from dovetail.cli.simulate import answer

    asked = asked_of(
        spec, model=model, cluster=cluster, plan=plan, devices=devices, global_batch=global_batch, seq=seq,
        compute=compute, profile=profile, read=count,
    )  # fmt: skip
    many = num_tokens("--tokens", tokens)
    if not answer(asked, as_json=as_json, num_tokens=many, html=html, perfetto=perfetto, ranks=ranks):
        raise typer.Exit(EXIT_INFEASIBLE)
