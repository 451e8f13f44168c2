"""Where a search is worked on: in this process, by worker processes of this machine, or by a Dask cluster.

An engine is opened for one question, which is sent to every worker once, and then maps tasks to results in the order of
the tasks. What a task comes to depends on the question and the task alone, so every engine gives the same answer, and a
task whose worker died is simply done again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from dovetail.errors import DovetailError, InvalidInput

Q = TypeVar("Q")
Q_co = TypeVar("Q_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")

MOST_TRIES = 3  # of one task, where each ended its worker


class EngineFailed(DovetailError):
    """Workers are lost in a way that trying again does not mend; results reported before are kept."""


class Engine(Protocol[Q_co]):
    """Does tasks of one question."""

    def map(self, act: Callable[[Q_co, T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """`act(question, task)` of every task, in their order; raises what `act` raises.

        Tasks are taken as they are needed: one at a time in this process, some ahead where there are workers. A search
        may thus offer more tasks than it will want, and close what it was given: those ahead are dropped.
        """
        ...


@contextmanager
def opened(question: Q, *, num_workers: int = 0, cluster: str = "") -> Iterator[Engine[Q]]:
    """The requested engine: `num_workers` processes, the Dask cluster at an address, or neither."""
    if num_workers and cluster:
        raise InvalidInput(f"{num_workers} workers and the cluster at {cluster} are two engines; choose one")
    if cluster:
        from dovetail.engine.cluster import on_cluster

        with on_cluster(question, cluster) as engine:
            yield engine
    elif num_workers:
        from dovetail.engine.workers import on_workers

        with on_workers(question, num_workers) as workers:
            yield workers
    else:
        from dovetail.engine.here import in_process

        yield in_process(question)
