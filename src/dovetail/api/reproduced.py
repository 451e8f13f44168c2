"""A paper's tables and figures, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Protocol

from dovetail.api.answer import Answer
from dovetail.api.progress import Progress, Tell, progress_callback
from dovetail.api.reproduced_papers import phaze, placed_instance, wham
from dovetail.api.requests.evidence import ReproduceRequest
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.phaze_dp import load_recorded, shipped_instances
from dovetail.files.text import one_line
from dovetail.files.written import write_file
from dovetail.papers.ace import ace_study
from dovetail.papers.beyond import beyond
from dovetail.papers.phaze_dp import Placed, phaze_dp_study
from dovetail.report.page import Page
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.reproduction import reproduction_page
from dovetail.report.papers.ace import ace_record, ace_tables
from dovetail.report.papers.ace_figures import ace_figures
from dovetail.report.papers.beyond import beyond_record, beyond_tables
from dovetail.report.papers.phaze import phaze_tables
from dovetail.report.papers.phaze_dp import phaze_dp_record, phaze_dp_tables
from dovetail.report.papers.wham import wham_tables
from dovetail.report.plain import Record
from dovetail.report.table import Table

PAPERS = ("ace", "phaze", "phaze-dp", "wham")
TABLES: dict[str, Callable[[Record], tuple[Table, ...]]] = {
    "ace": ace_tables,
    "beyond": beyond_tables,
    "phaze": phaze_tables,
    "phaze-dp": phaze_dp_tables,
    "wham": wham_tables,
}


class Watched(Protocol):
    """Who is told how far it is."""

    def announced(self, words: str) -> AbstractContextManager[None]: ...

    def stepping(self, names: list[str]) -> AbstractContextManager[Callable[[str], None]]: ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reproduction(Answer):
    """A paper's results and ours; `fits` is whether those that must agree do."""

    request: ReproduceRequest
    found: Record
    call: str = "dovetail.reproduce()"

    @property
    def fits(self) -> bool:
        return bool(self.found.get("holds", True))

    @property
    def headline(self) -> str:
        return self.page.sentence

    @property
    def tables(self) -> tuple[Table, ...]:
        return TABLES["beyond" if self.request.modern_chips else self.request.paper](self.found)

    @property
    def _record(self) -> Record:
        return self.found

    @property
    def page(self) -> Page:
        return reproduction_page(self.found, self.tables)

    @property
    def inputs(self) -> Record:
        inputs: Record = plain_inputs(self.request.values)
        return inputs

    @property
    def figures(self) -> dict[str, str]:
        """The paper's figures as SVG, by the names of their files; ace alone has some."""
        has_some = self.request.paper == "ace" and not self.request.modern_chips
        return ace_figures(self.found) if has_some else {}

    def to_svg(self, folder: str | PathLike[str]) -> None:
        """Writes `figures` into a folder that is there."""
        for name, picture in self.figures.items():
            write_file(Path(folder) / name, picture)


@contextmanager
def called(progress: Tell | bool) -> Iterator[Watched]:
    """Who is told of a call of a program."""
    with progress_callback(progress) as tell:
        yield _ProgressContext(tell=tell)


def reproduced(request: ReproduceRequest, watched: Watched) -> Reproduction:
    check_request(request)
    return Reproduction(request=request, found=_record(request, watched), call=request.call)


def check_request(request: ReproduceRequest, *, has_figures: bool = False) -> None:
    """Raises where there is no such paper, or it has not what is asked of it; `has_figures` asks for its figures."""
    paper, has_more = request.paper, request.modern_chips or request.refit or has_figures
    if paper not in PAPERS:
        raise InvalidInput(f"no paper is named {one_line(paper)!r}{did_you_mean(paper, PAPERS)}")
    if paper not in ("phaze", "wham") and (request.model or request.quick):
        raise InvalidInput("--model and --quick belong to phaze and wham; pass them with one of these")
    if paper != "ace" and has_more:
        has = "is one table" if paper == "phaze-dp" else "has tables alone"
        raise InvalidInput(f"{paper} {has}; pass --modern-chips, --refit and --figures with ace")
    if request.modern_chips and (has_figures or request.refit):
        raise InvalidInput("--modern-chips is a separate table; pass --figures or --refit without it")


def _record(request: ReproduceRequest, watched: Watched) -> Record:
    if request.paper == "wham":
        return wham(request.model, watched.stepping, is_exhaustive=not request.quick)
    if request.paper == "phaze":
        return phaze(request.model, watched.stepping, is_quick=request.quick)
    if request.paper == "phaze-dp":
        return _phaze_dp(watched)
    if request.modern_chips:
        with watched.announced("simulating chips of 2026"):
            return beyond_record(beyond())
    with watched.announced("simulating the paper's sweeps"):
        return ace_record(ace_study(refits=request.refit))


def _phaze_dp(watched: Watched) -> Record:
    instances = shipped_instances()
    recorded = {name: load_recorded(file) for name, file in instances.items()}
    with watched.stepping(list(instances)) as tell:

        def placed(name: str) -> Placed:
            tell(name)
            return placed_instance(instances[name])

        return phaze_dp_record(phaze_dp_study(recorded, placed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProgressContext:
    """Who is told by a program's own function, or a bar."""

    tell: Tell

    @contextmanager
    def announced(self, words: str) -> Iterator[None]:
        self.tell(Progress(task=words, words=words))
        yield

    @contextmanager
    def stepping(self, names: list[str]) -> Iterator[Callable[[str], None]]:
        seen: list[str] = []

        def step(words: str) -> None:
            begun = [name for name in names if words.partition(":")[0] == name and name not in seen]
            seen.extend(begun[:1])
            num_done = max(0, len(seen) - 1)
            self.tell(Progress(task="reproduce", words=words, num_done=num_done, num_all=len(names)))

        yield step
