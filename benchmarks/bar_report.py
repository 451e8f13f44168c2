"""Pages that commands write: how large they are, the chart library included."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Bar
from dovetail.cli.process import main
from dovetail.units import MEGA

ISSUE = 8
MOST_BYTES = 6 * MEGA
ROOT = Path(__file__).resolve().parents[1]
# Commands whose pages hold most: many passes, all plans, a whole front, every row of many sets.
PAGES = {
    "simulate": ("simulate", str(ROOT / "examples" / "llama3-405b-16384xh100.yaml")),
    "plan": ("plan", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "64"),
    "codesign": ("codesign",),
    "pareto": ("pareto",),
    "validate": ("validate", "h200"),
    "reproduce": ("reproduce", "ace"),
}


def bars() -> Iterator[Bar]:
    with tempfile.TemporaryDirectory() as folder:
        sizes_bytes = {name: _page_bytes(words, Path(folder) / f"{name}.html") for name, words in PAGES.items()}
    largest = max(sizes_bytes, key=lambda name: sizes_bytes[name])
    yield Bar(
        name="--html: the largest page, chart library included",
        issue=ISSUE,
        bar=f"< {MOST_BYTES / MEGA:g} MB",
        measured=f"{sizes_bytes[largest] / MEGA:.2f} MB ({largest}, of {len(PAGES)} commands)",
        holds=sizes_bytes[largest] < MOST_BYTES,
    )


def _page_bytes(words: tuple[str, ...], file: Path) -> int:
    """What a command writes; what it prints is not the bars' affair."""
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, "--quiet", "--html", str(file)])
    assert code in (0, 1), f"dovetail {' '.join(words)} ended with {code}"
    return file.stat().st_size
