"""Results in files beside what is printed: a Perfetto timeline, CSV tables, plans and specs in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.errors import InvalidInput
from dovetail.files.network_formats import devices_of
from dovetail.files.perfetto import check_trace_name
from dovetail.files.text import one_line
from dovetail.files.written import check_writable, write_file

if TYPE_CHECKING:
    from dovetail.comm.events.network_graph import LinkGraph
    from dovetail.comm.events.recording import Watch

YAML_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFiles:
    """Where results go, empty for nowhere, and of which devices timelines and links are (all, when none is named)."""

    perfetto: str = ""
    csv: str = ""
    devices: tuple[int, ...] = ()

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The record that a timeline needs, where one is wanted."""
        from dovetail.api.timelines import recording_of

        return (recording_of(self.devices),) if self.perfetto else ()


def result_files(perfetto: str, csv: str, ranks: str) -> ResultFiles:
    """The files, found writable before any work is done."""
    if ranks and not (perfetto or csv):
        raise InvalidInput("--ranks selects whose timeline or links are written; pass --perfetto or --csv too")
    if csv and Path(csv).suffix.lower() != ".csv":
        raise InvalidInput(f"a table is written to .csv; got {one_line(csv)!r}", "--csv")
    check_trace_name(perfetto)
    for name in (perfetto, csv):
        if name:
            check_writable(Path(name), is_forced=True)
    return ResultFiles(perfetto=perfetto, csv=csv, devices=devices_of(ranks, "--ranks") if ranks else ())


def check_plan_file(file: str, *, is_forced: bool) -> None:
    """Raises where a plan cannot be written to `file`; empty where none is to be."""
    if file:
        check_writable(Path(file), is_forced=is_forced)
        check_yaml_name(file, "a plan file", "--plan-file")


def check_yaml_name(file: str, what: str, option: str) -> None:
    if Path(file).suffix.lower() not in YAML_SUFFIXES:
        raise InvalidInput(f"{what} ends in {' or '.join(YAML_SUFFIXES)}; got {one_line(Path(file).name)!r}", option)


def write_tables(files: ResultFiles, text: str, beside: Mapping[str, str]) -> None:
    """Writes FILE.csv, and each table of `beside` to FILE.its-name.csv."""
    main = Path(files.csv)
    write_file(main, text)
    for name, table in beside.items():
        write_file(main.with_name(f"{main.stem}.{name}{main.suffix}"), table)


def check_links(files: ResultFiles, graph: LinkGraph) -> None:
    """Raises where a table of links would be too long to read."""
    from dovetail.report.links import MAX_LINKS, num_links

    count = num_links(graph, files.devices) if files.csv else 0
    if count > MAX_LINKS:
        rule = f"a table has at most {MAX_LINKS:,} links, and these are {count:,}"
        raise InvalidInput(f"{rule}; name some of the ranks, as in --ranks 0-7", "--csv")
