"""The options of `dovetail schedule`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.process import EXIT_INFEASIBLE
from dovetail.cli.usage import check_needed

MODEL_HELP = "A model: name, file or Hugging Face config.json."
CHIP_HELP = "A chip: name, the beginning of one such as tpuv2, or a file."
BLOCK_HELP = "A block of the model, such as layer or head; the layer that repeats most if none."
EXACT_HELP = "The best schedule, by CP-SAT, or the best found within --time and its gap; needs the extra mine."
TIME_HELP = "How long --exact may take; 60 s, if left out."
WORKERS_HELP = "Threads of --exact; 1, if left out, with which answers repeat."
RECOMPUTE_HELP = "none, light, selective, alternate or full."
PERFETTO_HELP = "Write the timeline to this file, for ui.perfetto.dev."


def schedule(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    chip: Annotated[str, typer.Option(metavar="NAME", help=CHIP_HELP)] = "",
    block: Annotated[str, typer.Option(metavar="NAME", help=BLOCK_HELP)] = "",
    batch: Annotated[str, typer.Option(metavar="N", help="Samples at once.")] = "1",
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    recompute: Annotated[str, typer.Option(metavar="POLICY", help=RECOMPUTE_HELP)] = "none",
    exact: Annotated[bool, typer.Option("--exact", help=EXACT_HELP)] = False,
    time: Annotated[str, typer.Option(metavar="TIME", help=TIME_HELP)] = "",
    workers: Annotated[str | None, typer.Option(metavar="N", help=WORKERS_HELP)] = None,
    perfetto: Annotated[str, typer.Option(metavar="FILE", help=PERFETTO_HELP)] = "",
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Schedule the operators of a block on the cores of a chip.

    Forward, backward and update of one block, on 1, 2, 4 or all cores each, under the chip's HBM and SRAM bandwidth;
    with a bound that no schedule beats, and the peaks of HBM and SRAM. Ends with 1 where HBM does not hold it.
    """
    from dovetail.api.arguments import count
    from dovetail.api.scheduled import ScheduleAsked
    from dovetail.cli.schedule import answer

    for option, is_said in (("--time", bool(time)), ("--workers", workers is not None)):
        check_needed(option, {"--exact": exact}, is_said=is_said)
    asked = ScheduleAsked(
        model=model, chip=chip, block=block, batch=count("--batch", batch), seq=count("--seq", seq) if seq else 0,
        recompute=recompute, is_exact=exact, time=time, num_workers=count("--workers", workers),
    )  # fmt: skip
    if not answer(asked, as_json=as_json, perfetto=perfetto, html=html):
        raise typer.Exit(EXIT_INFEASIBLE)
