"""The options that name a job, of `dovetail simulate`, `plan` and `launch`; importing them takes no time."""

from __future__ import annotations

from typing import Annotated

import typer

COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
PROFILE_HELP = "A trace of PyTorch's profiler or Chakra: measured times go before predictions."
RANKS_HELP = "Whose timeline to write: 0-7 or 0,2. Otherwise one device of each stage."

Model = Annotated[str, typer.Option(metavar="NAME", help="A model: name, file or Hugging Face config.json.")]
Cluster = Annotated[str, typer.Option(metavar="NAME", help="A cluster: name or file.")]
Devices = Annotated[str | None, typer.Option(metavar="N", help="Devices of a catalogue cluster.")]
GlobalBatch = Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")]
Seq = Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")]
Compute = Annotated[str, typer.Option(metavar="DTYPE", help=COMPUTE_HELP)]
Profile = Annotated[str, typer.Option(metavar="FILE", help=PROFILE_HELP)]
Ranks = Annotated[str, typer.Option(metavar="RANKS", help=RANKS_HELP)]
