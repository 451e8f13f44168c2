"""Pages that commands write: how large they are with all their charts, and whether they would fetch anything."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bar import Bar
from dovetail.cli.process import main
from dovetail.units import MEGA

ISSUE = 27
MOST_BYTES = 2 * MEGA
ROOT = Path(__file__).resolve().parents[1]
JOB = ("--model", "llama3-8b", "--devices", "16", "--global-batch", "64")
# Commands whose pages hold most: many passes, all plans, two models, a whole front, every row of many sets.
PAGES = {
    "simulate": ("simulate", str(ROOT / "examples" / "llama3-405b-16384xh100.yaml")),
    "plan": ("plan", "--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "64"),
    "codesign": ("codesign", str(ROOT / "examples" / "codesign-two-models.yaml")),
    "pareto": ("pareto",),
    "mine": ("mine", "resnet-18", "--batch", "8", "--algorithm", "random", "--budget", "20"),
    "network": ("network", "all-reduce", "--size", "64MiB", "--topology", "torus:4x4x4@50GB/s,500ns", "--chunks", "64"),
    "compare": ("compare", *JOB, "--cluster", "dgx-h100", "--cluster", "dgx-a100", "--plan", "ddp", "--plan", "tp=8"),
    "validate": ("validate", "h200"),
    "reproduce": ("reproduce", "ace"),
}
OUTSIDE = re.compile(r"""(?:src|href)="(?!#)|url\((?!#)|@import|fetch\(|XMLHttpRequest|WebSocket""")


def bars() -> Iterator[Bar]:
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: _page(words, Path(folder) / f"{name}.html") for name, words in PAGES.items()}
    sizes_bytes = {name: len(text.encode()) for name, text in texts.items()}
    largest = max(sizes_bytes, key=lambda name: sizes_bytes[name])
    num_charts = sum(text.count("data-chart=") for text in texts.values())
    yield Bar(
        name="--html: the largest page with all its charts",
        issue=ISSUE,
        bar=f"< {MOST_BYTES / MEGA:g} MB",
        measured=f"{sizes_bytes[largest] / MEGA:.2f} MB ({largest}, of {len(PAGES)} commands, {num_charts} charts)",
        holds=sizes_bytes[largest] < MOST_BYTES,
    )
    asking = [name for name, text in texts.items() if OUTSIDE.search(text) or "default-src 'none'" not in text]
    yield Bar(
        name="--html: pages that name another place, or do not forbid it",
        issue=ISSUE,
        bar="0",
        measured=f"{len(asking)} of {len(PAGES)}" + (f" ({', '.join(asking)})" if asking else ""),
        holds=not asking,
    )


def _page(words: tuple[str, ...], file: Path) -> str:
    """What a command writes; what it prints is not the bars' affair."""
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([*words, "--quiet", "--html", str(file)])
    assert code in (0, 1), f"dovetail {' '.join(words)} ended with {code}"
    return file.read_text(encoding="utf-8")
