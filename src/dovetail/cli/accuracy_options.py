"""The options of `dovetail validate` and `calibrate`, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail.cli.answer_options import AsJson, Html
from dovetail.cli.process import EXIT_MISSED

CHIP_HELP = "A chip: name, the beginning of one such as h200, or a file."
TARGET_HELP = (
    "h200, array-sims, dies, astra-sim, published-gemm, published, a CSV file, a folder of them, or results of --json."
)
PROFILE_HELP = (
    "A trace of PyTorch's profiler (.json, .json.gz) or of Chakra (.et): every operator beside ours; repeatable."
)
ALL_HELP = "One page: every set, speeds beside other tools and gaps, measured now; takes some minutes."
RUNS_HELP = "A CSV file of your own runs on one cluster: fits that cluster, and takes no FILE and no --chip."


def validate(
    target: Annotated[
        list[str] | None, typer.Argument(metavar="SET|FILE|FOLDER", help=TARGET_HELP, show_default=False)
    ] = None,
    chip: Annotated[str, typer.Option(metavar="NAME", help=f"{CHIP_HELP} Otherwise as the table says.")] = "",
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help="Of every row, whatever the table says.")] = "",
    worst: Annotated[str, typer.Option(metavar="N", help="How many of each set's worst rows to show.")] = "1",
    profile: Annotated[list[str] | None, typer.Option(metavar="FILE", help=PROFILE_HELP)] = None,
    all: Annotated[bool, typer.Option("--all", help=ALL_HELP)] = False,
    plot: Annotated[str, typer.Option(metavar="FILE", help="Draw predicted against measured, as .svg.")] = "",
    html: Html = "",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print it as Markdown; of all sets, docs/accuracy.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. Tables are known by their columns; see
    docs/howto. Ends with exit code 1 when a documented bar is missed; no bar holds for a profile of your own.
    With --all, every set that is here, speed by operation and optimality gaps on one page.
    """
    from dovetail.api.arguments import count
    from dovetail.api.validated import ValidateAsked
    from dovetail.cli.validate import answer

    asked = ValidateAsked(
        targets=tuple(target or ()),
        profiles=tuple(profile or ()),
        chip=chip,
        dtype=dtype,
        num_worst=count("--worst", worst, least=0),
        is_whole=all,
    )
    if not answer(asked, as_json=as_json, as_markdown=markdown, plot=plot, html=html):
        raise typer.Exit(EXIT_MISSED)


def calibrate(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="CSV files, as dovetail validate takes them.", show_default=False),
    ] = None,
    chip: Annotated[str, typer.Option(metavar="NAME", help=f"{CHIP_HELP} Where the fit begins.")] = "",
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help="Of every row, whatever the table says.")] = "",
    runs: Annotated[str, typer.Option(metavar="FILE", help=RUNS_HELP)] = "",
    out: Annotated[str, typer.Option(metavar="FILE", help="The file to write; NAME-calibrated.yaml if none.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that stands.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a chip or a cluster to measurements, and write its file.

    The numbers of the chip's calibration that the rows tell anything of are fitted for the least mean error; the same
    error on rows left out in turn says what to expect of other rows. With --runs, one or two numbers of a cluster.
    """
    from dovetail.cli.calibrate import CalibrateAsked, answer

    asked = CalibrateAsked(files=tuple(files or ()), chip=chip, dtype=dtype, out=out, is_forced=force, as_json=as_json)
    answer(asked, runs)
