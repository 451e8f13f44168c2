"""The help of `dovetail` with its commands by what one wants; and what every command has beside its own options."""

from __future__ import annotations

from typing import Any

import typer.core

from dovetail.cli.completion import complete_names
from dovetail.cli.examples import example_text
from dovetail.cli.plugin_option import plugin_options
from dovetail.cli.verbosity import verbosity_options

SECTIONS = {
    "Predict": ("simulate", "op", "schedule", "network", "trace"),
    "Bring": ("capture",),
    "Choose": ("plan", "mine", "codesign", "pareto"),
    "Run and keep": ("launch", "studies", "export"),
    "Look up": ("models", "chips", "clusters", "plans", "methods", "show"),
    "Trust": ("validate", "calibrate", "reproduce"),
    "Use": ("ui", "completion"),
}
OTHERS = "More"


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


def dressed(command: Any, path: str = "dovetail") -> Any:
    """`command` and all below it with the options that every command has, examples and completion."""
    codes = command.epilog or ""
    command.epilog = "\n\n".join(part for part in (example_text(path), codes) if part)
    command.params = [*command.params, *plugin_options(), *verbosity_options()]
    complete_names(command, path)
    for name, below in getattr(command, "commands", {}).items():
        dressed(below, f"{path} {name}")
    return command
