"""Tables of pages that list what is registered are written from the registries: `--bless` writes their rows."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dovetail.workload.layer_types import layer_types
from dovetail.workload.optimizers import optimizers

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLESS = "python -m pytest tests/golden/test_tables.py --bless"


def optimizer_rows() -> Iterator[tuple[str, ...]]:
    for name, entry in optimizers.items():
        yield f"`{name}`", ", ".join(f"`{alias}`" for alias in entry.aliases) or "-", entry.summary


def layer_type_rows() -> Iterator[tuple[str, ...]]:
    for name, made in layer_types.items():
        needs = ", ".join(f"`{field}`" for field in made().needs) or "-"
        yield f"`{name}`", f"`{made().field}`", " ".join((inspect.getdoc(made) or "").split()), needs


# Every table by its page and its header.
TABLES: dict[tuple[str, str], Callable[[], Iterator[tuple[str, ...]]]] = {
    ("reference/spec-file.md", "| optimizer | also read as | what it keeps |"): optimizer_rows,
    ("howto/add-a-layer-pattern.md", "| type | pattern | what such a layer has | needs |"): layer_type_rows,
}


def rewritten(text: str, header: str, rows: Iterator[tuple[str, ...]]) -> str:
    """The page with these rows under the header, in place of those that stand there."""
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    pattern = re.compile(rf"(^{re.escape(header)}\n\|[-|]+\|\n)(?:\|.*\n)*", re.MULTILINE)
    assert len(pattern.findall(text)) == 1, f"no table, or more than one, begins {header}"
    return pattern.sub(lambda found: found[1] + body, text)


@pytest.mark.parametrize(("page", "header"), TABLES)
def test_a_table_lists_what_is_registered(page: str, header: str, bless: bool) -> None:
    file = DOCS / page
    text = file.read_text(encoding="utf-8")
    now = rewritten(text, header, TABLES[page, header]())
    if bless:
        file.write_text(now, encoding="utf-8")
        return
    lacking = sorted(set(now.splitlines()) - set(text.splitlines()))
    said = "\n".join([f"docs/{page} does not list what is registered; run `{BLESS}`", *lacking])
    assert text == now, said


@pytest.mark.parametrize("rows", [optimizer_rows, layer_type_rows])
def test_every_row_says_something(rows: Callable[[], Iterator[tuple[str, ...]]]) -> None:
    empty = [row[0] for row in rows() if not all(cell.strip() for cell in row)]
    assert not empty, f"{', '.join(empty)}: give a summary, or of a layer type its function a docstring"


def test_rows_replace_those_that_stand_there() -> None:
    page = "a\n\n| x | y |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nb\n"
    assert rewritten(page, "| x | y |", iter([("5", "6")])) == "a\n\n| x | y |\n|---|---|\n| 5 | 6 |\n\nb\n"
    with pytest.raises(AssertionError, match="no table"):
        rewritten(page, "| z |", iter([]))
