"""Plugins: files of the user's that bring chips, models, costs and collectives of their own."""

from __future__ import annotations

from os import PathLike

from dovetail.api.arguments import in_python
from dovetail.files.plugins import load_plugin


@in_python
def use_plugin(*files: str | PathLike[str]) -> tuple[str, ...]:
    """Load Python files that register chips, models, operators, costs or collectives.

    A plugin is code: it runs with your rights, at once. What it registers can be named from then on, in every call of
    this process and in the workers of its searches, and is what comes back, such as ("chip my-chip",). A file that was
    taken in before is not run again.
    """
    return tuple(entry for file in files for entry in load_plugin(file).registered)
