"""How long other tools were recorded to take for what we time of ourselves: the one table of it.

*run*: its released code, in CPU seconds on two cores of a shared x86 machine; *paper*: as its authors state it.
docs/comparison.md says more of each tool.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.units import MEGA, SECONDS_PER_DAY, SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSpeed:
    """Seconds that a tool takes for one of what `operation` counts; the source says what was recorded of it."""

    operation: str
    peer: str
    least_s: float
    most_s: float
    source: str  # begins with run or paper

    @property
    def how(self) -> str:
        """Run by us, or published by its authors."""
        return self.source.partition(":")[0]


def _took(operation: str, peer: str, least_s: float, most_s: float, source: str) -> PeerSpeed:
    return PeerSpeed(operation=operation, peer=peer, least_s=least_s, most_s=most_s, source=source)


def _rate(operation: str, peer: str, least_per_s: float, most_per_s: float, source: str) -> PeerSpeed:
    return _took(operation, peer, 1 / most_per_s, 1 / least_per_s, source)


_CALCULON_S = 32 * SECONDS_PER_HOUR
PEER_SPEEDS = (
    _rate("operators", "Starlight", 6_500, 6_500, "paper: 6,500 predictions per second of Polaris/Starlight"),
    _took("operators", "Sunstone", 0.13, 0.13, "run: 0.13 CPU-s a GEMM, the median, as PHAZE calls it"),
    _took("operators", "SCALE-Sim 3", 10.0, 10.0, "run: about 10 CPU-s for a product of 128x768x768"),
    _rate("evaluate", "SimuMax", 1.7, 13.0, "run: 1.7 to 13 plans per CPU-second, each by itself"),
    _rate("step", "SimuMax", 1.7, 13.0, "run: 1.7 to 13 plans per CPU-second, each by itself"),
    _rate("plans", "Calculon", 115, 158, "run: 115 to 158 plans per CPU-second"),
    _took("plan-search", "Calculon", _CALCULON_S, _CALCULON_S, "run: about 32 CPU-hours for its 13.2 million plans"),
    _took("placement", "PHAZE", 8.4, 8.4, "run: 8.4 CPU-s of its program, compiled with -O2, to the same optimum"),
    _took("ring-closed", "ASTRA-sim", 7.71, 7.71, "run: 7.7 CPU-s, 64 MiB on 1,024 NPUs; it has no closed form"),
    _took("ring", "ASTRA-sim", 7.71, 7.71, "run: 7.7 CPU-s, 64 MiB on 1,024 NPUs"),
    _rate("events", "ASTRA-sim", 0.11 * MEGA, 0.55 * MEGA, "run: 0.11 to 0.55 M events a CPU-second"),
    _took("layer-schedule", "PHAZE", 0.3, 6.0, "run: 0.3 to 6 CPU-s to build and solve its program for a layer"),
    _took("codesign", "PHAZE", SECONDS_PER_DAY, SECONDS_PER_DAY, "run: days, extrapolated from parts; counted as one"),
)


def peers_of(operation: str) -> tuple[PeerSpeed, ...]:
    return tuple(peer for peer in PEER_SPEEDS if peer.operation == operation)
