"""How devices are joined: a product of dimensions, innermost (fastest) first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.hardware.link import Link

XLA_ICI = "xla-ici"  # a library without constants of its own: collectives take its links and the chip's calibration
FittedConstants = tuple[tuple[str, int, float], ...]
DIMENSION_KINDS = ("ring", "bidirectional-ring", "mesh", "switch", "fully-connected", "fat-tree")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One level of the network: `num_devices` joined by links of one kind.

    `link` is what one device can send in one direction into this dimension, all its ports together. A fat
    tree is a switch seen from its ports; `oversubscription` 2 leaves each half of its bandwidth. A narrower tier is a
    dimension of its own. Where `library` is named, its measured times stand for collectives over the links, and
    `is_network` says which dimensions are between nodes. `library_constants` are those that were fitted on this
    cluster's own logs and replace the library's: name, number of ranks (0 for any) and value. `is_reducing` says that
    its switches add and multicast for collectives: a cluster sets it where its devices have such an endpoint.
    """

    name: str
    kind: str
    num_devices: int
    link: Link
    oversubscription: float = 1.0
    library: str = ""
    is_network: bool = False
    library_constants: FittedConstants = ()
    jitter_s: float = 0.0  # standard deviation of when ranks come to a collective; 0 where nothing is known of it
    is_reducing: bool = False

    @property
    def has_measured_library(self) -> bool:
        """Whether collectives take a library's measured times, and not a share of the links."""
        return self.library not in ("", XLA_ICI)

    def __post_init__(self) -> None:
        if self.kind not in DIMENSION_KINDS:
            hint = did_you_mean(self.kind, DIMENSION_KINDS)
            raise InvalidInput(f"no network dimension is of kind {self.kind!r}{hint}", "kind")
        if self.num_devices < 1:
            raise InvalidInput(f"a dimension joins at least 1 device; got {self.num_devices}", "num_devices")
        if self.oversubscription != 1 and self.kind not in ("switch", "fat-tree"):
            rule = f"oversubscription is for switches and fat trees; got {self.oversubscription:g} on a {self.kind}"
            raise InvalidInput(f"{rule}; give its links less bandwidth instead", "oversubscription")
        if not 0 <= self.jitter_s < math.inf:
            raise InvalidInput(f"jitter must not be negative; got {self.jitter_s:g} s", "jitter")
        if self.is_reducing and not self.can_reduce:
            message = f"dimension {self.name} is {self.kind}, without switches that add"
            raise NotModelled(f"{message}; take another endpoint, or switches", "endpoint")
        if not self.oversubscription >= 1:
            raise InvalidInput(
                f"oversubscription must be at least 1; got {self.oversubscription:g}", "oversubscription"
            )

    @property
    def can_reduce(self) -> bool:
        """Whether there are switches to add; devices joined each to each have none, and one by itself needs none."""
        return self.kind in ("switch", "fat-tree") or self.num_devices == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Dimensions, innermost first; devices are their product."""

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise InvalidInput("a topology has at least one dimension", "dimensions")
        names = [dimension.name for dimension in self.dimensions]
        if len(set(names)) != len(names):
            raise InvalidInput(f"dimension names must differ; got {', '.join(names)}", "dimensions")

    @property
    def num_devices(self) -> int:
        return math.prod(dimension.num_devices for dimension in self.dimensions)

    @property
    def num_inside(self) -> int:
        """Devices of one node, or of one NVLink domain: those that no network or fat tree lies between."""
        count = 1
        for dimension in self.dimensions:
            if dimension.is_network or dimension.kind == "fat-tree":
                break
            count *= dimension.num_devices
        return count

    def with_jitter(self, jitter_s: float) -> Topology:
        """The same topology where ranks come to every collective with this standard deviation."""
        return replace(self, dimensions=tuple(replace(d, jitter_s=jitter_s) for d in self.dimensions))

    def with_reducing(self, is_reducing: bool) -> Topology:
        """The same topology whose switches add for collectives, or do not; raises where there are none that could."""
        if all(one.is_reducing == is_reducing for one in self.dimensions):
            return self
        return replace(self, dimensions=tuple(replace(one, is_reducing=is_reducing) for one in self.dimensions))

    def with_latency_scaled(self, factor: float) -> Topology:
        """The same topology with every latency times `factor`."""
        dimensions = tuple(
            replace(d, link=replace(d.link, latency_s=d.link.latency_s * factor)) for d in self.dimensions
        )
        return replace(self, dimensions=dimensions)

    def with_links_scaled(self, bandwidth_ratio: float, pace_ratio: float) -> Topology:
        """The same topology with all bandwidths times `bandwidth_ratio` and all latencies over `pace_ratio`."""

        def scaled(link: Link) -> Link:
            rate = link.bandwidth_bytes_per_s * bandwidth_ratio
            return Link(bandwidth_bytes_per_s=rate, latency_s=link.latency_s / pace_ratio)

        return replace(self, dimensions=tuple(replace(d, link=scaled(d.link)) for d in self.dimensions))

    def with_link_scaled(self, name: str, factor: float) -> Topology:
        """The same topology with the bandwidth of dimension `name` times `factor`."""
        dimensions = tuple(
            replace(d, link=replace(d.link, bandwidth_bytes_per_s=d.link.bandwidth_bytes_per_s * factor))
            if d.name == name
            else d
            for d in self.dimensions
        )
        return replace(self, dimensions=dimensions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Where a group of ranks lies in one dimension: `num_ranks` of its devices, every `stride`-th."""

    dimension: Dimension
    num_ranks: int
    stride: int = 1

    @property
    def goes_round(self) -> bool:
        """Whether first and last rank are as near as any two neighbours on a ring."""
        return self.num_ranks * self.stride == self.dimension.num_devices


Group = tuple[Span, ...]  # a group of ranks: one span a dimension it reaches into, innermost first


def num_ranks(group: Group) -> int:
    return math.prod(span.num_ranks for span in group)
