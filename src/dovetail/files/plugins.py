"""Plugins read from disk: the one place that turns a path into code that runs.

Only a path that a user typed comes here, on the command line or in a program: no spec file can name a plugin.
"""

from __future__ import annotations

import logging
import os
from os import PathLike
from pathlib import Path

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line, quoted, read_text
from dovetail.plugins import Loaded, Plugin, load

_LOG = logging.getLogger(__name__)
_OPTION = "--plugin"


def load_plugin(path: str | PathLike[str]) -> Loaded:
    """Runs the plugin at `path`, and keeps what it registers."""
    file = Path(path)
    if file.suffix != ".py":
        raise InvalidInput(f"a plugin is a Python file, its name ends in .py; got {quoted(str(file))}", _OPTION)
    found = load(Plugin(path=_shown(file), source=read_text(file, _OPTION)))
    registered = one_line(", ".join(found.registered))
    _LOG.info("plugin %s, sha256 %s, gives %s", one_line(str(file)), found.plugin.digest[:12], registered)
    return found


def _shown(file: Path) -> str:
    """One name for one file, however it was written, as short as it can be: a file named twice is one plugin."""
    whole = Path(os.path.abspath(file))
    return os.fspath(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole)
