"""What a referee asks beside errors: how fast operations are beside other tools, how far from the best answers."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.peer_speeds import PeerSpeed

NOW = "now"
GAP_COLUMNS = ("what", "num", "num_best", "mean_frac", "worst_frac", "source")
CLOSED_FRAC = 1e-9  # style: a tolerance; sums in another order differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where, by what and when operations were timed."""

    num_cores: int
    processor: str
    python: str
    numpy: str
    date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """CPU seconds for one of `item`, the median of `num_runs`; with no `item`, for the operation as a whole."""

    operation: str
    what: str
    item: str
    per_item_s: float
    num_runs: int
    peers: tuple[PeerSpeed, ...]

    def ratio_to(self, peer: PeerSpeed) -> float:
        """How many times as long the peer takes, by the best that was recorded of it."""
        return peer.least_s / self.per_item_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """By how much the best possible may be ahead of `num` answers, of which `num_best` are the best.

    `source` is the file they are recorded in, or NOW.
    """

    what: str
    num: int
    num_best: int
    mean_frac: float
    worst_frac: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Untried:
    """What was not measured, and why not."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Appraisal:
    """Speeds and gaps of one run, with the gaps that ship as records."""

    machine: Machine
    speeds: tuple[Speed, ...]
    gaps: tuple[Gap, ...]
    not_measured: tuple[Untried, ...] = ()


def gap_over(what: str, gaps_frac: list[float], source: str) -> Gap:
    """The gap of several answers of one kind."""
    assert gaps_frac, what
    sizes = [max(0.0, gap_frac) for gap_frac in gaps_frac]
    return Gap(
        what=what,
        num=len(sizes),
        num_best=sum(size <= CLOSED_FRAC for size in sizes),
        mean_frac=sum(sizes) / len(sizes),
        worst_frac=max(sizes),
        source=source,
    )


def gaps_of(table: Measurements) -> tuple[Gap, ...]:
    """Recorded gaps, as the table that ships has them."""
    columns = [table.words(name) for name in GAP_COLUMNS]
    return tuple(
        Gap(
            what=what,
            num=int(num),
            num_best=int(num_best),
            mean_frac=float(mean_frac),
            worst_frac=float(worst_frac),
            source=source,
        )
        for what, num, num_best, mean_frac, worst_frac, source in zip(*columns, strict=True)
    )
