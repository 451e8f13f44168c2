"""The commands, as Typer has them; the options of each are in a module of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Annotated, Any

import typer

from dovetail import __version__
from dovetail.cli.calibrate import calibrate
from dovetail.cli.capture import capture
from dovetail.cli.catalogue import chips, clusters, methods, models, plans
from dovetail.cli.codesign import codesign
from dovetail.cli.compare import compare, sweep
from dovetail.cli.completion import VARIABLE, answer_shells
from dovetail.cli.completion_options import completion
from dovetail.cli.grouping import Grouped, dressed
from dovetail.cli.launch import launch
from dovetail.cli.measure import measure
from dovetail.cli.mine import mine
from dovetail.cli.network import network
from dovetail.cli.op import op
from dovetail.cli.options import add_options
from dovetail.cli.pareto import pareto
from dovetail.cli.plan import plan
from dovetail.cli.plugin_option import own_plugins
from dovetail.cli.process import EXIT_INTERRUPTED
from dovetail.cli.reproduce import reproduce
from dovetail.cli.schedule import schedule
from dovetail.cli.show import show
from dovetail.cli.simulate import simulate
from dovetail.cli.studies import export, studies
from dovetail.cli.trace_options import trace
from dovetail.cli.ui import ui
from dovetail.cli.usage import USAGE_ERROR, check_values, usage
from dovetail.cli.validate import validate
from dovetail.cli.verbosity import command_verbosity
from dovetail.errors import InvalidInput

EXIT_CODES = (
    "Exit codes: 0 an answer; 1 an answer, and the plan does not fit or a documented accuracy is missed; 2 bad input;"
    " 70 a mistake of ours, with its traceback; 74 the answer cannot be written; 130 interrupted."
)
HELP_NAMES = ("-h", "--help")

app = typer.Typer(
    name="dovetail",
    cls=Grouped,
    help="Predict and co-design distributed deep-learning training.",
    epilog=EXIT_CODES,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 80, "terminal_width": 80, "help_option_names": list(HELP_NAMES)},
)


def run(arguments: list[str]) -> int:
    """The exit code of one command; wrong usage is raised as we say it."""
    check_values(arguments)
    with command_verbosity(), own_plugins(arguments):
        try:
            code = command(arguments[0] if arguments else HELP_NAMES[0]).main(
                args=arguments, prog_name="dovetail", standalone_mode=False
            )
        except USAGE_ERROR as error:
            raise InvalidInput(usage(error)) from None
        except typer.Abort:
            raise KeyboardInterrupt from None
        except SystemExit:  # how Typer ends when its output is closed, as in `| head -1`, or a shell was answered
            return 0
    if code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return int(code or 0)


def command(name: str = "") -> Any:
    """All commands, as Click has them; where `name` is one of them, or asks for the list of all, that alone will do."""
    if VARIABLE in os.environ:  # a shell asks what may stand at its cursor
        answer_shells()
        return _built("")
    return _built(name)


@cache
def _built(name: str) -> Any:
    """Built once a process: Typer reads the annotations of every option, which takes 0.05 s of all commands."""
    some = copy(app)
    own = [each for each in app.registered_commands if each.callback is not None and each.callback.__name__ == name]
    if own:
        some.registered_commands, some.registered_groups = own, []
    if name not in HELP_NAMES:
        below = [each for group in some.registered_groups for each in group.typer_instance.registered_commands]  # type: ignore[union-attr]
        for each in (*some.registered_commands, *below):
            add_options(each.callback)  # type: ignore[arg-type]
    return dressed(typer.main.get_command(some))


VERSION_HELP = "Print the version, and that of the model behind its numbers."


@app.callback(invoke_without_command=True)
def dovetail(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help=VERSION_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: as JSON, for programs.")] = False,
) -> None:
    """Predict and co-design distributed deep-learning training."""
    if version:
        show_version(as_json=as_json)
        raise typer.Exit
    if as_json:
        raise InvalidInput("before a command --json goes with --version alone; put it after the command's name")
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def show_version(*, as_json: bool) -> None:
    """The release, the version of its source and that of its physics; our source is hashed, and not imported."""
    from dovetail.report.plain import versioned
    from dovetail.store.version import model_version, physics_version

    versions = {"version": __version__, "model_version": model_version(), "physics_version": physics_version()}
    text = "dovetail {version} (model {model_version}, physics {physics_version})".format(**versions)
    typer.echo(json.dumps(versioned(versions), indent=2) if as_json else text)


ENDING: tuple[Callable[..., None], ...] = (
    simulate,
    compare,
    sweep,
    plan,
    launch,
    validate,
    codesign,
    pareto,
    mine,
    reproduce,
)
OTHERS: tuple[Callable[..., None], ...] = (
    *(op, schedule, network),
    *(capture,),
    *(studies, export),
    *(models, chips, clusters, plans, methods, show),
    *(calibrate, measure, ui, completion),
)
for each in ENDING:
    app.command(epilog=EXIT_CODES)(each)
for each in OTHERS:
    app.command()(each)
app.add_typer(trace, name="trace")
