"""The help of `dovetail` with its commands by what one wants; and what every command has beside its own options."""

from __future__ import annotations

from typing import Any

import typer.core

from dovetail.cli.completion import complete_names
from dovetail.cli.examples import example_text
from dovetail.cli.plugin_option import plugin_options
from dovetail.cli.verbosity import verbosity_options

SECTIONS = {
    "Predict": ("simulate", "compare", "sweep", "op", "schedule", "network", "trace"),
    "Bring": ("capture",),
    "Choose": ("plan", "mine", "codesign", "pareto"),
    "Run and keep": ("launch", "studies", "export"),
    "Look up": ("models", "chips", "clusters", "plans", "methods", "show"),
    "Trust": ("validate", "measure", "calibrate", "reproduce"),
    "Use": ("ui", "completion"),
}
OTHERS = "More"
OPTION_WIDTH = 18  # of the column of options in every help, so that one that is added moves no line of another


class Grouped(typer.core.TyperGroup):
    """A group whose help lists its commands in `SECTIONS`; those that stand in none come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        known = {name for names in SECTIONS.values() for name in names}
        more = tuple(name for name in self.list_commands(ctx) if name not in known)
        widest = max(len(name) for name in self.commands)
        for title, names in {**SECTIONS, OTHERS: more}.items():
            own = [name for name in names if name in self.commands]
            if own:
                limit = formatter.width - 6 - widest
                rows = [(name.ljust(widest), self.commands[name].get_short_help_str(limit)) for name in own]
                with formatter.section(title):
                    formatter.write_dl(rows)


def _steady(context: Any) -> Any:
    """A context like `context` whose help has options in a column of one width; longer ones take a line."""

    class Formatter(context.formatter_class):  # type: ignore[misc]
        def write_dl(self, rows: Any, col_max: int = OPTION_WIDTH, col_spacing: int = 2) -> None:
            padded = [(name.ljust(col_max) if name.startswith("-") else name, help_text) for name, help_text in rows]
            super().write_dl(padded, col_max, col_spacing)

    return type("Context", (context,), {"formatter_class": Formatter})


def dressed(command: Any, path: str = "dovetail") -> Any:
    """`command` and all below it with the options that every command has, examples and completion."""
    codes = command.epilog or ""
    command.epilog = "\n\n".join(part for part in (example_text(path), codes) if part)
    command.params = [*command.params, *plugin_options(), *verbosity_options()]
    command.context_class = _steady(command.context_class)
    complete_names(command, path)
    for name, below in getattr(command, "commands", {}).items():
        dressed(below, f"{path} {name}")
    return command
