"""Many chips and the network between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import HEADROOM_GIVEN, Chip
from dovetail.hardware.host import Host, NoHost
from dovetail.hardware.reliability import NotStated, Reliability
from dovetail.hardware.topology import Topology

MAX_SPREAD_FRAC = 2.0  # of errors in logarithms; runs that are a factor e^2 apart were not of one cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRuns:
    """What a cluster's calibration was fitted to: a user's runs on it; none of them by default.

    `spread_frac` is the root mean square of the error on each run, in logarithms, fitted to the others.
    """

    num_runs: int = 0
    num_scales: int = 0  # numbers that were fitted
    spread_frac: float = 0.0
    fitted_on: str = ""

    def __post_init__(self) -> None:
        if self.num_runs and not 0 < self.num_scales <= 2:
            raise InvalidInput(f"a cluster is fitted by 1 or 2 scales; got {self.num_scales}", "scales")
        if not 0 <= self.spread_frac <= MAX_SPREAD_FRAC:
            raise InvalidInput(f"spread must be from 0 to {MAX_SPREAD_FRAC:g}; got {self.spread_frac:g}", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Equal devices joined by one topology, in equal nodes; `sources` names where each figure comes from.

    `platform` is what tables of measured collectives call it, where its library was fitted to one.
    Whether switches add for collectives is what the chip's endpoint says, and its dimensions are kept so.
    """

    name: str
    chip: Chip
    topology: Topology
    sources: tuple[tuple[str, str], ...]
    own_runs: OwnRuns = field(default_factory=OwnRuns)
    host: Host | NoHost = field(default_factory=NoHost)
    reliability: Reliability | NotStated = field(default_factory=NotStated)
    platform: str = ""

    def __post_init__(self) -> None:
        added = self.topology.with_reducing(self.chip.endpoint_kind.is_in_switch)
        if added is not self.topology:
            object.__setattr__(self, "topology", added)
        slow = self.reliability.slow_devices if isinstance(self.reliability, Reliability) else None
        if slow and slow.num_devices > self.num_devices:
            rule = f"count must be at most the {self.num_devices:,} devices of {self.name}; got {slow.num_devices:,}"
            raise InvalidInput(f"{rule}; count fewer, or take more devices", "reliability.slow_devices.count")

    @property
    def num_devices(self) -> int:
        return self.topology.num_devices

    @property
    def usable_bytes(self) -> float:
        """HBM that a plan may take of every device."""
        return self.chip.usable_bytes

    def with_headroom(self, headroom_frac: float, source: str = HEADROOM_GIVEN) -> Cluster:
        """This cluster where plans leave `headroom_frac` of what the framework sees of HBM free, and nothing else."""
        return replace(self, chip=self.chip.with_headroom(headroom_frac, source))
