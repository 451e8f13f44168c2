"""What running a trace comes to."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.comm.events.engine import Timeline
from dovetail.comm.events.recording import Record
from dovetail.comm.one_collective import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """When a rank ended, how long it computed, and how long it communicated without computing."""

    rank: int
    end_s: float
    compute_s: float

    @property
    def exposed_s(self) -> float:
        return max(0.0, self.end_s - self.compute_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Critical:
    """One task of the critical path, and when it began and ended."""

    task: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOutcome:
    """`critical`, `network` and `timeline` are empty where the engine has none, `record` where not requested.

    `notes` says what the engine does not model.
    """

    engine: str
    ranks: tuple[RankEnd, ...]
    num_nodes: int
    critical: tuple[Critical, ...] = ()
    notes: tuple[str, ...] = ()
    network: tuple[Network, ...] = ()
    timeline: tuple[Timeline, ...] = ()
    record: tuple[Record, ...] = ()

    @property
    def end_s(self) -> float:
        return max((rank.end_s for rank in self.ranks), default=0.0)
