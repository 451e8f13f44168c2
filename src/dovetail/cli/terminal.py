"""What a search of a command has around it: bars on the terminal, and interrupts that end it well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dovetail.api.search_context import Kept, chosen_store
from dovetail.cli.engines import EngineChoice, engine_for
from dovetail.cli.progress import announced, front_progress, joint_progress, mining_progress, search_progress, through
from dovetail.cli.storing import resumed
from dovetail.engine import Engine
from dovetail.store import Store

if TYPE_CHECKING:
    from dovetail.search.codesign.joint import Standing as JointStanding
    from dovetail.search.codesign.pareto import FrontStanding
    from dovetail.search.mining.miner import MiningProgress
    from dovetail.search.objectives import Objective
    from dovetail.search.planners.even_plans import PlanProgress

Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalContext:
    """The requested engine and store, and a terminal to show progress on."""

    choice: EngineChoice = field(default_factory=EngineChoice)
    file: str = ""

    def store(self) -> AbstractContextManager[Store | None]:
        return chosen_store(self.file)

    def resumed(
        self, store: Store | None, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...]
    ) -> AbstractContextManager[Kept]:
        return resumed(store, kind, inputs, figure_names)

    def engine(self, question: Q) -> AbstractContextManager[Engine[Q]]:
        return engine_for(self.choice, question)

    def announced(self, words: str) -> AbstractContextManager[None]:
        return announced(words)

    def through(self, words: str, items: Sequence[Q]) -> Iterator[Q]:
        return through(words, items)

    def planning(
        self, objective: Objective, cluster_usd: float, framework: str = ""
    ) -> AbstractContextManager[PlanProgress]:
        return search_progress(objective, cluster_usd, framework)

    def mining(self, base: str, num_most: int) -> AbstractContextManager[MiningProgress]:
        return mining_progress(base, num_most)

    def codesigning(self, base: str) -> AbstractContextManager[Callable[[JointStanding], None]]:
        return joint_progress(base)

    def pareto(self) -> AbstractContextManager[Callable[[FrontStanding], None]]:
        return front_progress()
