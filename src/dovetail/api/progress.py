"""How far a search is, told to a function of the caller's or shown as a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dovetail.units import format_bytes, format_energy_j, format_s

if TYPE_CHECKING:  # so that who only shows a bar does not import every search
    from dovetail.search.codesign.joint import Standing as JointStanding
    from dovetail.search.codesign.pareto import FrontStanding
    from dovetail.search.mining.miner import Standing as MiningStanding
    from dovetail.search.objectives import Objective
    from dovetail.search.planners.candidates import Candidate, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStanding:
    """How far a search for a plan is: grids of degrees done, plans seen, the best score and the bound, 0 for none.

    `best` has the best plan so far, nothing before one fits. `framework` names whose plans alone are looked at; it is
    empty while the whole space is searched, which comes first.
    """

    num_done: int
    num_all: int
    tally: Tally
    score: float
    bound_s: float
    best: tuple[Candidate, ...] = ()
    framework: str = ""

    @property
    def gap_frac(self) -> float:
        """By how much a plan may be better than the best so far; 1 while no bound is known or nothing fits."""
        return max(0.0, 1.0 - self.bound_s / self.best[0].step_s) if self.best else 1.0


Standing: TypeAlias = "PlanStanding | MiningStanding | JointStanding | FrontStanding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a call: `task` is the present task, `words` the state in one line.

    `num_all` is 0 where nobody can tell yet. `standing` is the search's own account, with the best so far and the
    bound; there is none while something else than a search goes on.
    """

    task: str
    words: str
    num_done: int = 0
    num_all: int = 0
    standing: tuple[Standing, ...] = ()


Tell = Callable[[Progress], None]


def plan_progress(now: PlanStanding, objective: Objective, cluster_usd: float) -> Progress:
    words = best_label(objective, now.score, cluster_usd)
    if now.score == float("inf") and not now.bound_s and not now.tally.num_evaluated:
        words = "bounding"
    elif now.bound_s and now.score < float("inf"):
        words += f"; cutting stages, gap {100 * max(0.0, 1 - now.bound_s * cluster_usd / now.score):.2f} %"
    words = f"{now.tally.num_plans:,} plans{f' of {now.framework}' if now.framework else ''}; {words}"
    return Progress(task="plan", words=words, num_done=now.num_done, num_all=now.num_all, standing=(now,))


def best_label(objective: Objective, score: float, cluster_usd: float) -> str:
    """The best score so far as people say it."""
    if score == float("inf"):
        return "nothing fits yet"
    if objective.aspect == "memory":
        return f"best {format_bytes(score)}"
    if objective.aspect == "energy":
        return f"best {format_energy_j(score, 1)} per step"
    return f"best {format_s(score / cluster_usd)} per step"


def mining_progress(now: MiningStanding, base: str, num_most: int) -> Progress:
    words = f"{now.num_evaluated:,} designs{_beside(base, now.loss, now.bound)}"
    num_all = min(now.num_evaluated + now.num_open, num_most)
    return Progress(task="mine", words=words, num_done=now.num_evaluated, num_all=num_all, standing=(now,))


def joint_progress(now: JointStanding, base: str) -> Progress:
    words = f"{now.num_done:,} {now.phase}{_beside(base, now.loss, now.bound)}"
    num_all = now.num_done + now.num_open
    return Progress(task="codesign", words=words, num_done=now.num_done, num_all=num_all, standing=(now,))


def front_progress(now: FrontStanding) -> Progress:
    if now.num_bounded < now.num_points:
        words, num_done = f"bounding {now.num_points:,} systems", now.num_bounded
    else:
        words = f"{now.num_scored:,} scored, {now.num_front:,} on the front, {now.num_open:,} open"
        num_done = 2 * now.num_points - now.num_open
    return Progress(task="pareto", words=words, num_done=num_done, num_all=2 * now.num_points, standing=(now,))


def _beside(base: str, loss: float, bound: float) -> str:
    return f"; {1 / loss:.3f}x {base}, at most {1 / bound:.3f}x" if loss < float("inf") and bound > 0 else ""


@contextmanager
def progress_callback(progress: Tell | bool) -> Iterator[Tell]:
    """What a search tells how far it is: the caller's own function, a bar on standard error, or nobody."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[said]}"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, said="")

        def show(now: Progress) -> None:
            bar.update(task, description=now.task, completed=now.num_done, total=now.num_all or None, said=now.words)

        yield show
