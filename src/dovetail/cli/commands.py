"""The commands, as Typer has them; the options of each are in a module of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dovetail import __version__
from dovetail.cli.accuracy_options import calibrate, validate
from dovetail.cli.capture_options import capture
from dovetail.cli.catalogue_options import chips, clusters, models, plans, show
from dovetail.cli.codesign_options import codesign
from dovetail.cli.completion import VARIABLE, answer_shells
from dovetail.cli.completion_options import completion
from dovetail.cli.grouping import Grouped, dressed
from dovetail.cli.launch_options import launch
from dovetail.cli.manner import own_manner
from dovetail.cli.mine_options import mine
from dovetail.cli.network_options import network
from dovetail.cli.op_options import op
from dovetail.cli.pareto_options import pareto
from dovetail.cli.plan_options import plan
from dovetail.cli.plugin_option import own_plugins
from dovetail.cli.process import EXIT_INTERRUPTED
from dovetail.cli.reproduce_options import reproduce
from dovetail.cli.schedule_options import schedule
from dovetail.cli.simulate_options import simulate
from dovetail.cli.store_options import export, studies
from dovetail.cli.trace_options import trace
from dovetail.cli.ui_options import ui
from dovetail.cli.usage import USAGE_ERROR, check_said, usage
from dovetail.errors import InvalidInput

EXIT_CODES = (
    "Exit codes: 0 an answer; 1 an answer, and the plan does not fit or a documented accuracy is missed; 2 bad input;"
    " 70 a mistake of ours, with its traceback; 74 the answer cannot be written; 130 interrupted."
)

app = typer.Typer(
    name="dovetail",
    cls=Grouped,
    help="Predict and co-design distributed deep-learning training.",
    epilog=EXIT_CODES,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 80, "terminal_width": 80, "help_option_names": ["-h", "--help"]},
)


def run(arguments: list[str]) -> int:
    """The exit code of one command; wrong usage is raised as we say it."""
    check_said(arguments)
    with own_manner(), own_plugins(arguments):
        try:
            code = command().main(args=arguments, prog_name="dovetail", standalone_mode=False)
        except USAGE_ERROR as error:
            raise InvalidInput(usage(error)) from None
        except typer.Abort:
            raise KeyboardInterrupt from None
        except SystemExit:  # how Typer ends when nobody reads its help on, as in `| head -1`, or a shell was answered
            return 0
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return int(code or 0)


def command() -> Any:
    """All commands, as Click has them."""
    if VARIABLE in os.environ:  # a shell asks what may stand at its cursor
        answer_shells()
    return dressed(typer.main.get_command(app))


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


ENDING: tuple[Callable[..., None], ...] = (simulate, plan, launch, validate, codesign, pareto, mine, reproduce)
OTHERS: tuple[Callable[..., None], ...] = (
    *(op, schedule, network),
    *(capture,),
    *(studies, export),
    *(models, chips, clusters, plans, show),
    *(calibrate, ui, completion),
)
for each in ENDING:
    app.command(epilog=EXIT_CODES)(each)
for each in OTHERS:
    app.command()(each)
app.add_typer(trace, name="trace")
