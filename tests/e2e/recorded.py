"""Text that is generated, kept in the repository, and compared with what is generated today."""

from __future__ import annotations

import difflib
import os
from pathlib import Path


def check_recorded(file: Path, text: str, bless: bool) -> None:
    """Compares `text` with `file`, or writes it there when blessing."""
    if bless:
        file.write_text(text, encoding="utf-8")
        return
    blessing = f"run `python -m pytest --bless '{os.environ['PYTEST_CURRENT_TEST'].rpartition(' (')[0]}'`"
    assert file.exists(), f"nothing is recorded in {file.name}; {blessing} and review what it wrote"
    recorded = file.read_text(encoding="utf-8")
    moved = "\n".join(difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm=""))
    assert recorded == text, f"{file.name} moved; if that is meant, {blessing} and say why:\n{moved}"
