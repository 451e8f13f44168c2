"""No workers at all: a task is done when its result is wanted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic

from dovetail.engine import Q, R, T


@dataclass(frozen=True, slots=True)
class Here(Generic[Q]):
    """This process."""

    question: Q

    def map(self, act: Callable[[Q, T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        return (act(self.question, task) for task in tasks)


def in_process(question: Q) -> Here[Q]:
    return Here(question)
