"""What a person meets first: words and pictures of the documentation, the README, and a narrow terminal."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dovetail as dv
from benchmarks.bar import REPOSITORY, Bar
from dovetail.report.table import Table, lines

ISSUE = 27
MOST_WORDS, LEAST_PICTURES, MOST_README_WORDS = 65_000, 40, 900
COLUMNS = (60, 80)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.(?:svg|png))\)")
JOB: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100x64"}
# What the commands print, by what is typed.
ANSWERS: dict[str, Callable[[], Any]] = {
    "simulate SPEC": lambda: dv.simulate("examples/llama3-70b-512xh100.yaml"),
    "simulate, does not fit": lambda: dv.simulate(model="llama3-70b", cluster="h100x8", plan="ddp"),
    "compare": lambda: dv.compare("h100x64", "h200x64", model="llama3-8b", plan="tp=8,pp=2"),
    "sweep": lambda: dv.sweep(**JOB, plan="zero3", over={"workload.seq": [2048, 4096, 8192, 16384, 32768]}),
    "plan": lambda: dv.plan(**JOB, global_batch=128, fix="zero_stage=1", top=5),
    "op": lambda: dv.op("matmul", 4096, 4096, 4096, chip="h200", compare=True),
    "network": lambda: dv.network("all-reduce", size="64MiB", topology="torus:4x4@50GB/s,500ns", chunks=4),
    "network, sweep": lambda: dv.network("all-reduce", size="1MiB..16MiB", topology="ring:8@50GB/s,500ns"),
    "schedule": lambda: dv.schedule("resnet-18", chip="tpuv2-like", block="stem"),
    "mine": lambda: dv.mine("resnet-18", batch=2, algorithm="random", budget=20),
    "validate": lambda: dv.validate("array-sims"),
    "models": dv.models,
    "chips": dv.chips,
    "clusters": dv.clusters,
    "plans": dv.plans,
    "methods": dv.methods,
    "show chip": lambda: dv.show("h100-sxm"),
    "show model": lambda: dv.show("llama3-8b"),
    "show cluster": lambda: dv.show("dgx-h100"),
}


def bars() -> Iterator[Bar]:
    yield _words()
    yield _pictures()
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    count, shown = len(readme.split()), PICTURE.findall(readme)
    has_both = any("explorer" in name for name in shown) and any("scatter" in name for name in shown)
    yield _bar("words of the README", f"<= {MOST_README_WORDS}", f"{count}", count <= MOST_README_WORDS)
    yield _bar("README: a picture of the explorer and a scatter", "both", ", ".join(map(_stem, shown)), has_both)
    yield from (_narrow(width) for width in COLUMNS)


def pages() -> list[Path]:
    """Every page of the navigation of the site, decisions and reference too."""
    nav = tomllib.loads((REPOSITORY / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return [REPOSITORY / "docs" / name for name in _named(nav)]


def _named(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _named(part)


def words(folder: Path) -> dict[str, int]:
    """Words of every page below a folder, as `wc -w` counts them: code, marks of tables and dated records too."""
    pages_of = sorted(folder.rglob("*.md"))
    return {page.relative_to(folder).as_posix(): len(page.read_text(encoding="utf-8").split()) for page in pages_of}


def _words() -> Bar:
    counts = words(REPOSITORY / "docs")
    total = sum(counts.values())
    longest = sorted(counts, key=lambda page: -counts[page])[:3]
    note = "longest: " + ", ".join(f"{page} {counts[page]:,}" for page in longest)
    return _bar(
        "words of all pages of the documentation", f"<= {MOST_WORDS:,}", f"{total:,}", total <= MOST_WORDS, note
    )


def _pictures() -> Bar:
    """Those that `make docs` makes and a page shows."""
    made = {file.stem for file in (REPOSITORY / "docs" / "images").glob("*.svg")}
    shown = {_stem(name) for page in pages() for name in PICTURE.findall(page.read_text(encoding="utf-8"))}
    count = len(made & shown)
    return _bar("pictures that make docs makes, shown", f">= {LEAST_PICTURES}", f"{count}", count >= LEAST_PICTURES)


def _narrow(width: int) -> Bar:
    """Lines that are too long, or words that are cut, in what the commands print."""
    wrong = [name for name, ask in ANSWERS.items() if any(is_broken(table, width) for table in tables(ask()))]
    name = f"answers of {len(ANSWERS)} commands at {width} columns that are too wide or cut"
    return _bar(name, "none", ", ".join(wrong) or "none", not wrong)


def tables(answer: Any) -> tuple[Table, ...]:
    return answer.tables if hasattr(answer, "tables") else (answer.table,)


def is_broken(table: Table, width: int) -> bool:
    """Whether a table is wider than the terminal, or a word of it was cut."""
    laid = [line.text for line in lines(table, width)]
    said = (table.title, *table.columns, *table.notes, *(cell for row in table.rows for cell in row))
    is_cut = any("..." in text for text in laid) and not any("..." in text for text in said)
    return is_cut or any(len(text) > width for text in laid)


def _stem(name: str) -> str:
    return Path(name).stem


def _bar(name: str, bar: str, measured: str, holds: bool | None, note: str = "") -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured=measured, holds=holds, note=note)
