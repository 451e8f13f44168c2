"""Commands from typed functions: the options of a request's call, and those of the command alone, as Typer has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from dovetail.api.requests.option import EMPTY, FLAG, Option, Parameter, Request, parameters_of
from dovetail.cli.process import EXIT_INFEASIBLE

# Of every command that gives an answer.
AsJson = Annotated[
    bool, Option("Print JSON, for programs; docs/reference/json.md lists its keys.", kind=FLAG, flag="--json")
]
Html = Annotated[str, Option("Also write the answer as one page with charts that opens in any browser.", "FILE")]
Force = Annotated[bool, Option("Overwrite an existing file.", kind=FLAG)]
Ranks = Annotated[str, Option("Whose timeline to write: 0-7 or 0,2. Otherwise one device of each stage.", "RANKS")]


def command(
    request: type[Request] | None = None, *, before: Mapping[str, str] = MappingProxyType({})
) -> Callable[[Callable[..., bool | None]], Callable[..., None]]:
    """A function as Typer takes it: with the options of `request`, and then with its own.

    The function is called with the request, parsed, and with its own options by name; where it says False, there is an
    answer and it is not the wanted one, and the command exits with 1. `before` puts an option of the function's own
    before one of the request's in the help. Its docstring is the command's help.
    """

    def made(function: Callable[..., bool | None]) -> Callable[..., None]:
        own = parameters_of(function)
        requested = request.parameters if request else ()

        def run(**typed: Any) -> None:
            for each in (*requested, *own):  # what was typed by an old name, unless it was typed by the new one too
                typed[each.name] = typed.pop(f"old_{each.name}", None) or typed[each.name]
            values = {each.name: each.parse(typed[each.name]) for each in own}
            words = {each.name: typed[each.name] for each in requested}
            found = function(request.parsed(words), **values) if request else function(**values)
            if found is False:
                raise typer.Exit(EXIT_INFEASIBLE)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        _OPTIONS[run] = lambda: _ordered(requested, own, before)
        return run

    return made


_OPTIONS: dict[Callable[..., None], Callable[[], list[Parameter]]] = {}


def add_options(run: Callable[..., None]) -> None:
    """Gives a command the signature that Typer reads; the list of all commands does without, and is quick."""
    if run in _OPTIONS:
        ordered = _OPTIONS.pop(run)()
        parameters = [_typers(each) for each in ordered] + [_old(each) for each in ordered if each.option.old_flag]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _ordered(
    requested: tuple[Parameter, ...], own: tuple[Parameter, ...], before: Mapping[str, str]
) -> list[Parameter]:
    found = []
    for each in requested:
        found += [one for one in own if before.get(one.name) == each.name]
        found.append(each)
    return [*found, *(one for one in own if one.name not in before)]


def _old(each: Parameter) -> inspect.Parameter:
    """An option by the name that it had before: read, and left out of the help."""
    annotation: Any = bool if each.option.kind.is_flag else str | None
    info = typer.Option(each.option.old_flag, hidden=True)
    default = False if each.option.kind.is_flag else None
    name = f"old_{each.name}"
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[annotation, info])


def _typers(each: Parameter) -> inspect.Parameter:
    """One option as Typer reads it: text, which we parse ourselves, or a flag."""
    option, kind = each.option, each.option.kind
    settings: dict[str, Any] = {"help": option.help}
    if option.metavar:
        settings["metavar"] = option.metavar
    annotation: Any
    default: Any
    if kind.is_flag:
        annotation, default = bool | None if each.default is None else bool, each.default
    elif kind.is_repeated:
        annotation, default = list[str] | None, None
    elif each.default is None or each.default is EMPTY:
        annotation, default = str if each.default is EMPTY else str | None, each.default
    else:
        annotation, default = str, str(each.default)
    if option.is_argument:
        info = typer.Argument(**settings) if default is EMPTY else typer.Argument(**settings, show_default=False)
    else:
        names = () if kind.has_negative and not option.flag else (each.flag,)
        info = typer.Option(*names, **settings)
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )
