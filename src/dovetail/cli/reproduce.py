"""`dovetail reproduce`: a paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dovetail.accuracy.reproduce.ace import ace_study
from dovetail.accuracy.reproduce.beyond import beyond
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import one_line
from dovetail.files.written import write_file
from dovetail.report.beyond import beyond_record, beyond_tables
from dovetail.report.reproduction import ace_record, ace_tables
from dovetail.report.reproduction_figures import ace_figures

PAPERS = ("ace",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceAsked:
    """The command's arguments."""

    paper: str
    is_beyond: bool = False
    refits: bool = False
    figures: str = ""
    as_json: bool = False


def answer(asked: ReproduceAsked) -> bool:
    """Shows the tables, and says whether every number that must meet the paper's does."""
    if asked.paper not in PAPERS:
        hint = did_you_mean(asked.paper, PAPERS)
        raise InvalidInput(f"no paper is named {one_line(asked.paper)!r}{hint}")
    if asked.is_beyond and (asked.figures or asked.refits):
        raise InvalidInput("--beyond is a table of its own; say --figures or --refit without it")
    folder = _folder(asked.figures)
    if asked.is_beyond:
        record = beyond_record(beyond())
        _show(record, asked, is_beyond=True)
        return True
    record = ace_record(ace_study(refits=asked.refits))
    if folder is not None:
        for name, picture in ace_figures(record).items():
            write_file(folder / name, picture)
    _show(record, asked, is_beyond=False)
    return bool(record["holds"])


def _show(record: dict[str, object], asked: ReproduceAsked, *, is_beyond: bool) -> None:
    if asked.as_json:
        show_json(record)
    else:
        show_tables(beyond_tables(record) if is_beyond else ace_tables(record))


def _folder(name: str) -> Path | None:
    """Where figures go: a folder that is there."""
    if not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {one_line(name)!r} to write figures to", "--figures")
    return folder
