"""What a stranger asks: twice forty command lines, and utilisations that can be read (issue 26).

The lines are those of the dated records; each is typed again, and must answer or be refused in one line.
"""

from __future__ import annotations

import contextlib
import csv
import io
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Bar
from dovetail.api.requests.comparisons import sweep
from dovetail.cli import main

ISSUE = 26
ROOT = Path(__file__).resolve().parents[1]
RECORDS = tuple(
    ROOT / "docs" / "protocols" / f"2026-11-17-{name}-command-lines.csv" for name in ("forty", "forty-more")
)
NUM_LINES = 40
LENGTHS = (2048, 8192, 32_768, 131_072)
POLICIES = ("none", "selective", "full")


def bars() -> Iterator[Bar]:
    yield from map(_lines, RECORDS)
    yield _utilisations()


def _lines(record: Path) -> Bar:
    with record.open(encoding="utf-8", newline="") as file:
        rows = [(row["line"].removeprefix("dovetail "), int(row["exit_code"])) for row in csv.DictReader(file)]
    wrong = [words for words, code in rows if not _is_helpful(words, code)]
    return Bar(
        name=f"command lines of a stranger, answered or refused in one line ({record.stem})",
        issue=ISSUE,
        bar=f"{NUM_LINES} of {NUM_LINES}",
        measured=f"{len(rows) - len(wrong)} of {len(rows)}",
        holds=not wrong and len(rows) == NUM_LINES,
        note="; ".join(wrong),
    )


def _is_helpful(words: str, code: int) -> bool:
    """Whether a line ends as the record says, and says one line where it is refused."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        typed = [word.replace("rows.csv", f"{folder}/rows.csv") for word in shlex.split(words)]
        typed = [str(ROOT / word) if word.startswith("examples/") else word for word in typed]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = main(typed)
    is_refused = ended == 2 and err.getvalue().count("\n") == 1 and "Traceback" not in err.getvalue()
    return ended == code and (is_refused if code == 2 else bool(out.getvalue()))


def _utilisations() -> Bar:
    """MFU against HFU, by length and recompute, of a model whose attention is causal."""
    over = {"seq": LENGTHS, "plan.recompute": POLICIES}
    found = sweep(model="llama3-8b", cluster="h100x64", plan="tp=8,cp=4,sp", global_batch=64, over=over)
    timed = [row for row in found if row["step_s"] is not None]
    above = [row for row in timed if row["mfu_frac"] > row["hfu_frac"]]
    return Bar(
        name="MFU above HFU, lengths to 131,072 and three recompute policies",
        issue=ISSUE,
        bar="0",
        measured=f"{len(above)} of {len(timed)}",
        holds=not above and len(timed) > 1,
    )
