"""The command line: reads what was asked, calls the layers above, and shows what they say.

Commands import what they need when they run, so that `dovetail --help` starts without NumPy, pydantic or YAML.
"""

from __future__ import annotations

from dovetail.cli.process import main

__all__ = ["main"]
