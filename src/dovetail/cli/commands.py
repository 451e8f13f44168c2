"""The commands and their options, as Typer has them."""

from __future__ import annotations

from typing import Annotated

import typer

from dovetail import __version__
from dovetail.cli.codesign_options import codesign
from dovetail.cli.launch_options import launch
from dovetail.cli.mine_options import mine
from dovetail.cli.network_options import network
from dovetail.cli.pareto_options import pareto
from dovetail.cli.plan_options import plan
from dovetail.cli.process import EXIT_INFEASIBLE, EXIT_INTERRUPTED, EXIT_MISSED
from dovetail.cli.schedule_options import schedule
from dovetail.cli.store_options import export, studies
from dovetail.cli.trace_options import trace
from dovetail.cli.usage import USAGE_ERROR, check_said, usage
from dovetail.errors import InvalidInput

EXIT_CODES = (
    "Exit codes: 0 an answer; 1 an answer, and the plan does not fit or a documented accuracy is missed; 2 bad input;"
    " 70 a mistake of ours, with its traceback; 74 the answer cannot be written; 130 interrupted."
)
SPEC_HELP = "A spec file: workload, cluster and plan."
JSON_HELP = "Print JSON, for programs; docs/reference/json.md lists its keys."
COMPUTE_HELP = "What matrix products are computed in, such as fp16: the workload's precision.compute."
TOKENS_HELP = "Tokens to train on in all, such as 15T: how long that takes."
CHIP_HELP = "A chip: name, the beginning of one such as h200, or a file."
TARGET_HELP = (
    "h200, array-sims, dies, astra-sim, published-gemm, published, a CSV file, a folder of them, or results of --json."
)
OP_HELP = "An operator, such as matmul, attention, convolution, layernorm, gelu or adam; list names them all."
DIMS_HELP = "M N K of a product; rows and columns; channels in, out and side of a convolution."
PASS_HELP = "forward, input-grad or weight-grad; sizes stay those of the forward product."
FUSED_HELP = "One kernel with the least passes over memory, not PyTorch's own."
SETTING_HELP = "alone (idle queue, cold caches), kernel (its kernels' time) or stream (behind others, full clock)."
RUNS_HELP = "A CSV file of your own runs on one cluster: fits that cluster, and takes no FILE and no --chip."
KIND_HELP = "Which catalogue is meant, where a name is in several: model, chip, cluster or plan."

app = typer.Typer(
    name="dovetail",
    help="Predict and co-design distributed deep-learning training.",
    epilog=EXIT_CODES,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 80, "terminal_width": 80, "help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def run(arguments: list[str]) -> int:
    """The exit code of one command; wrong usage is raised as we say it."""
    check_said(arguments)
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="dovetail", standalone_mode=False)
    except USAGE_ERROR as error:
        raise InvalidInput(usage(error)) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:  # how Typer ends when nobody reads its help on, as in `| head -1`
        return 0
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return int(code or 0)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"dovetail {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def dovetail(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # Typer reads it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Predict and co-design distributed deep-learning training."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(epilog=EXIT_CODES)
def simulate(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help=SPEC_HELP, show_default=False)] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="A model: name, file or Hugging Face config.json.")] = "",
    cluster: Annotated[str, typer.Option(metavar="NAME", help="A cluster: name or file.")] = "",
    devices: Annotated[str | None, typer.Option(metavar="N", help="Devices of a catalogue cluster.")] = None,
    plan: Annotated[str, typer.Option(metavar="NAME", help="A plan: name or file.")] = "",
    global_batch: Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")] = None,
    compute: Annotated[str | None, typer.Option(metavar="DTYPE", help=COMPUTE_HELP)] = None,
    tokens: Annotated[str, typer.Option(metavar="N", help=TOKENS_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Predict one training step: time, memory, energy, limits.

    SPEC is a file; options override what it says. Without one, give --model, --cluster and --plan.
    """
    from dovetail.cli.asked import asked_of, num_tokens
    from dovetail.cli.simulate import answer

    asked = asked_of(
        spec=spec, model=model, cluster=cluster, plan=plan, devices=devices, global_batch=global_batch, seq=seq,
        compute=compute,
    )  # fmt: skip
    if not answer(asked, as_json=as_json, num_tokens=num_tokens("--tokens", tokens)):
        raise typer.Exit(EXIT_INFEASIBLE)


app.command(epilog=EXIT_CODES)(plan)
app.command(epilog=EXIT_CODES)(launch)


@app.command()
def models(as_json: AsJson = False) -> None:
    """List the models that can be named."""
    from dovetail.cli.catalogue import list_models

    list_models(as_json=as_json)


@app.command()
def chips(as_json: AsJson = False) -> None:
    """List the chips that can be named."""
    from dovetail.cli.catalogue import list_chips

    list_chips(as_json=as_json)


@app.command()
def clusters(as_json: AsJson = False) -> None:
    """List the clusters that can be named."""
    from dovetail.cli.catalogue import list_clusters

    list_clusters(as_json=as_json)


@app.command()
def plans(as_json: AsJson = False) -> None:
    """List the plans that can be named."""
    from dovetail.cli.catalogue import list_plans

    list_plans(as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from any catalogue, or a file.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help=KIND_HELP)] = "",
    as_json: AsJson = False,
) -> None:
    """Show one model, chip, cluster or plan, with its sources.

    A file works too: a Hugging Face config.json, or a YAML file with a model, chip, cluster or whole spec in it.
    """
    from dovetail.cli.show import show_entry

    show_entry(name, kind, as_json=as_json)


@app.command(epilog=EXIT_CODES)
def validate(
    target: Annotated[
        list[str] | None, typer.Argument(metavar="SET|FILE|FOLDER", help=TARGET_HELP, show_default=False)
    ] = None,
    chip: Annotated[str, typer.Option(metavar="NAME", help=f"{CHIP_HELP} Otherwise as the table says.")] = "",
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help="Of every row, whatever the table says.")] = "",
    worst: Annotated[str, typer.Option(metavar="N", help="How many of each set's worst rows to show.")] = "1",
    plot: Annotated[str, typer.Option(metavar="FILE", help="Write predicted against measured as .svg or .html.")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/accuracy.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with measurements, set by set.

    Without an argument, with what ships: h200, array-sims, dies and astra-sim. Tables are known by their columns; see
    docs/howto. Ends with exit code 1 when a documented bar is missed.
    """
    from dovetail.cli.asked import count
    from dovetail.cli.validate import ValidateAsked, answer

    asked = ValidateAsked(
        targets=tuple(target or ()),
        chip=chip,
        dtype=dtype,
        plot=plot,
        num_worst=0 if worst.strip() == "0" else count("--worst", worst),
        as_json=as_json,
        as_markdown=markdown,
    )
    if not answer(asked):
        raise typer.Exit(EXIT_MISSED)


@app.command()
def op(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=OP_HELP)],
    dims: Annotated[list[str] | None, typer.Argument(metavar="SIZE", help=DIMS_HELP, show_default=False)] = None,
    chip: Annotated[str, typer.Option(metavar="NAME", help=CHIP_HELP)] = "",
    dtype: Annotated[str, typer.Option(metavar="DTYPE", help="What it is computed in.")] = "bf16",
    direction: Annotated[str, typer.Option("--pass", metavar="PASS", help=PASS_HELP)] = "forward",
    batch: Annotated[str, typer.Option(metavar="N", help="Products, samples or images at once.")] = "1",
    heads: Annotated[str, typer.Option(metavar="N", help="Attention heads.")] = "1",
    kv_heads: Annotated[str | None, typer.Option(metavar="N", help="Key-value heads, where fewer.")] = None,
    seq: Annotated[str | None, typer.Option(metavar="N", help="Positions that attend to each other.")] = None,
    head_dim: Annotated[str | None, typer.Option(metavar="N", help="Width of an attention head.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="Attention to earlier positions only.")] = False,
    kernel: Annotated[str, typer.Option(metavar="N", help="Side of a convolution's window.")] = "1",
    stride: Annotated[str, typer.Option(metavar="N", help="Stride of a convolution.")] = "1",
    table_rows: Annotated[str, typer.Option(metavar="N", help="Rows of the table an embedding looks up in.")] = "1",
    fused: Annotated[bool, typer.Option("--fused", help=FUSED_HELP)] = False,
    setting: Annotated[str, typer.Option(metavar="HOW", help=SETTING_HELP)] = "alone",
    compare: Annotated[bool, typer.Option("--compare", help="Beside a roofline and closed forms.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cost one operator on one chip, and say what limits it."""
    from dovetail.cli.op import Said, answer

    counts = {"batch": batch, "heads": heads, "kv-heads": kv_heads, "seq": seq, "head-dim": head_dim}
    counts |= {"kernel": kernel, "stride": stride, "table-rows": table_rows}
    words = {"kind": kind, "dtype": dtype, "direction": direction, "setting": setting}
    said = Said(**words, dims=tuple(dims or ()), counts=counts, is_causal=causal, is_fused=fused)
    answer(said, chip, is_compared=compare, as_json=as_json)


@app.command()
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
    """Fit a chip to measurements, or a cluster to your runs on it, and write its file.

    The numbers of the chip's calibration that the rows tell anything of are fitted for the least mean error; the same
    error on rows left out in turn says what to expect of other rows. With --runs, one or two numbers of a cluster.
    """
    from dovetail.cli.calibrate import CalibrateAsked, answer

    asked = CalibrateAsked(files=tuple(files or ()), chip=chip, dtype=dtype, out=out, is_forced=force, as_json=as_json)
    answer(asked, runs)


app.command(epilog=EXIT_CODES)(codesign)
app.command(epilog=EXIT_CODES)(pareto)
app.command(epilog=EXIT_CODES)(mine)
app.command()(studies)
app.command()(export)
app.command()(schedule)
app.command()(network)
app.add_typer(trace, name="trace")


@app.command(epilog=EXIT_CODES)
def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Whose results: ace, phaze, phaze-dp, wham.")],
    beyond: Annotated[bool, typer.Option("--beyond", help="The same question on chips of 2026, by mechanism.")] = False,
    refit: Annotated[bool, typer.Option("--refit", help="Fit the declared compute scales again.")] = False,
    figures: Annotated[str, typer.Option(metavar="DIR", help="Write the figures as SVG into this folder.")] = "",
    model: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With phaze or wham: only this model; may be said again.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="With wham: prove, but do not schedule all designs; with phaze: no chips.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print a paper's tables and sweeps, ours beside the paper's.

    Ends with exit code 1 when a number that must meet the paper's does not.
    """
    from dovetail.cli.reproduce import ReproduceAsked, answer

    asked = ReproduceAsked(
        paper=paper,
        is_beyond=beyond,
        refits=refit,
        figures=figures,
        models=tuple(model or ()),
        is_quick=quick,
        as_json=as_json,
    )
    if not answer(asked):
        raise typer.Exit(EXIT_MISSED)
