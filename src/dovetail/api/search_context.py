"""What a search has around it: where its work is done, where it is kept, and who watches.

A command brings a terminal and signals, a program its own function; what is searched, and how, is the same code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dovetail.api.progress import (
    PlanStanding,
    Progress,
    Tell,
    front_progress,
    joint_progress,
    mining_progress,
    plan_progress,
    progress_callback,
)
from dovetail.engine import Engine, opened
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point
from dovetail.store import Store
from dovetail.store import opened as opened_store
from dovetail.store.shapes import SPACE

if TYPE_CHECKING:  # a search for one thing need not import those for others
    from dovetail.search.codesign.joint import Standing as JointStanding
    from dovetail.search.codesign.pareto import FrontStanding
    from dovetail.search.mining.miner import MiningProgress
    from dovetail.search.objectives import Objective
    from dovetail.search.planners.candidates import Candidate, Tally
    from dovetail.search.planners.even_plans import PlanProgress

Keep = Callable[[list[Scored]], None]
Kept = tuple[Mapping[Point, Scored], Keep]
Q = TypeVar("Q")


class SearchContext(Protocol):
    """Everything that a search needs of whoever asks for it."""

    def store(self) -> AbstractContextManager[Store | None]:
        """Where designs are kept; nothing without a store."""

    def resumed(
        self, store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...]
    ) -> AbstractContextManager[Kept]:
        """What is known of a question, and how to keep more."""

    def engine(self, question: Q) -> AbstractContextManager[Engine[Q]]:
        """Who does the work."""

    def announced(self, words: str) -> AbstractContextManager[None]:
        """Says what goes on that is not a search."""

    def through(self, words: str, items: Sequence[Q]) -> Iterator[Q]:
        """The items one after another; says what is done with them, and how many are done."""

    def planning(
        self, objective: Objective, cluster_usd: float, framework: str = ""
    ) -> AbstractContextManager[PlanProgress]:
        """How far a search for a plan is; `framework` names whose plans alone it looks at, if so."""

    def mining(self, base: str, num_most: int) -> AbstractContextManager[MiningProgress]: ...

    def codesigning(self, base: str) -> AbstractContextManager[Callable[[JointStanding], None]]: ...

    def pareto(self) -> AbstractContextManager[Callable[[FrontStanding], None]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """A search that a program calls: told to `tell`, kept in `file`, an interrupt left to the caller."""

    tell: Tell
    file: str = ""
    num_workers: int = 0
    dask: str = ""

    def store(self) -> AbstractContextManager[Store | None]:
        return chosen_store(self.file)

    def resumed(
        self, store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...]
    ) -> AbstractContextManager[Kept]:
        return kept(store, kind, inputs, figure_names)

    def engine(self, question: Q) -> AbstractContextManager[Engine[Q]]:
        return opened(question, num_workers=self.num_workers, cluster=self.dask)

    @contextmanager
    def announced(self, words: str) -> Iterator[None]:
        self.tell(Progress(task=words, words=words))
        yield

    def through(self, words: str, items: Sequence[Q]) -> Iterator[Q]:
        for num_done, item in enumerate(items):
            now = f"{num_done:,} of {len(items):,}"
            self.tell(Progress(task=words, words=now, num_done=num_done, num_all=len(items)))
            yield item

    @contextmanager
    def planning(self, objective: Objective, cluster_usd: float, framework: str = "") -> Iterator[PlanProgress]:
        def watch(
            num_done: int,
            num_all: int,
            tally: Tally,
            score: float,
            bound_s: float = 0.0,
            best: tuple[Candidate, ...] = (),
            /,
        ) -> None:
            now = PlanStanding(
                num_done=num_done,
                num_all=num_all,
                tally=tally,
                score=score,
                bound_s=bound_s,
                best=best,
                framework=framework,
            )
            self.tell(plan_progress(now, objective, cluster_usd))

        yield watch

    @contextmanager
    def mining(self, base: str, num_most: int) -> Iterator[MiningProgress]:
        yield lambda now: self.tell(mining_progress(now, base, num_most))

    @contextmanager
    def codesigning(self, base: str) -> Iterator[Callable[[JointStanding], None]]:
        yield lambda now: self.tell(joint_progress(now, base))

    @contextmanager
    def pareto(self) -> Iterator[Callable[[FrontStanding], None]]:
        yield lambda now: self.tell(front_progress(now))


@contextmanager
def called(progress: Tell | bool, *, store: str = "", num_workers: int = 0, dask: str = "") -> Iterator[SearchContext]:
    """What a call of a program has around it: who is told, the store, and the engine, checked as a command's are."""
    if num_workers and dask:
        raise InvalidInput(f"--workers {num_workers} and --dask {dask} are two engines; choose one")
    if dask:
        from dovetail.engine.cluster import check_cluster

        check_cluster(dask)
    with progress_callback(progress) as tell:
        yield CallContext(tell=tell, file=store, num_workers=num_workers, dask=dask)


@contextmanager
def chosen_store(file: str) -> Iterator[Store | None]:
    """The store that --store names; opened before any work is done, so that a bad one costs no time."""
    if not file:
        yield None
        return
    path = Path(file)
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"--store names a file in a folder that is there; got {file!r}")
    with opened_store(path) as store:
        yield store


@contextmanager
def kept(store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...] = ()) -> Iterator[Kept]:
    """What is known of this question, and how to keep more; nothing, and nowhere, without a store."""
    if store is None:
        yield {}, lambda _: None
        return
    study = store.study(kind, inputs, figure_names)
    known = study.known()
    _check_rows(study.key, known, [len(values) for values in inputs.get(SPACE, {}).values()])
    yield known, study.keep


def _check_rows(key: str, known: Mapping[Point, Scored], num_values: Sequence[int]) -> None:
    """Raises where a row is none that this question can have: its checksum does not say who wrote it."""
    for point, one in known.items():
        if not one.loss > 0:
            progress_callback = f"has a loss of {one.loss:g}, and losses are above 0"
        elif num_values and (len(point) != len(num_values) or any(map(operator.ge, point, num_values))):
            progress_callback = f"is at a point that its space of {len(num_values)} knobs does not have"
        else:
            continue
        progress_callback = f"a row of study {key} {progress_callback}"
        raise InvalidInput(
            f"{progress_callback}; put back a copy of the store, or start again with another file", "store"
        )
