"""Prints docs/images/simulate.svg: what `dovetail simulate` shows on a terminal, drawn.

`make bless` records it. Asks nothing of any other server: the fonts are the reader's own.
"""

from __future__ import annotations

import io
import re
import sys

from rich.console import Console
from rich.terminal_theme import MONOKAI

from dovetail.cli.screen import print_styled
from dovetail.evaluate import evaluate
from dovetail.files.job import load_spec
from dovetail.report.figures import tables_of
from dovetail.report.outcome import outcome_figures

SPEC = "examples/llama3-70b-512xh100.yaml"
NUM_TABLES = 4  # all but the assumptions, which are words
FONTS = "monospace"


def svg() -> str:
    job = load_spec(SPEC)
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    answer = outcome_figures(evaluate(job.workload, job.cluster, job.plan), job.name)
    print_styled(console, tables_of(answer)[:NUM_TABLES])
    drawn = console.export_svg(title=f"dovetail simulate {SPEC}", theme=MONOKAI, unique_id="simulate")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r"font-family: (Fira Code|arial)[^;]*;", f"font-family: {FONTS};", drawn)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(svg())
