"""The command line: reads a request, calls the layers above, and shows their answers.

Commands import what they need when they run, so that `dovetail --help` starts without NumPy, pydantic or YAML.
"""

from __future__ import annotations

from dovetail.cli.process import main

__all__ = ["main"]
