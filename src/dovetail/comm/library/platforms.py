"""Platforms that collective libraries run on: what NCCL's source says of them, and what was fitted, on which rows.

Fitted constants are those that `python -m benchmarks.nccl_fit` prints: medians of nccl-tests on A100, H100, B200 and
L40S, one node of 2 to 8 GPUs (ai-dynamo/aiconfigurator), and logs over two nodes of 8 H100 and of 8 MI300X. Decision 63
has the equations and the errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.units import GIGA, MEBI, MICRO

LL, LL128, SIMPLE = "LL", "LL128", "Simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerSteps:
    """NCCL's own estimate of latency on one kind of link: a base, and what each step adds; LL, LL128, Simple.

    Source: src/graph/tuning.cc, baseLatencies and hwLatencies of ring, the same in releases 2.23.4 to 2.29.2.
    """

    base_s: tuple[float, float, float]
    step_s: tuple[float, float, float]
    nvls_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolConstants:
    """What the protocols have in common on all platforms of one kind of link. All but the last were fitted.

    A hop of LL128 and of Simple is a multiple of one of LL. `own_chunk_ratio` is what a rank's own chunk, which it only
    copies or reduces, takes beside one that it sends.
    """

    ll_frac: float  # of the links' bandwidth that LL reaches
    ll_own_chunk_ratio: float
    ll128_frac: float
    ll128_hop_ratio: float
    simple_frac: float
    simple_hop_ratio: float
    simple_s: float  # Simple takes longer to begin
    own_chunk_ratio: float
    p2p_s: float  # all-to-all: sends and receives take longer to begin,
    p2p_peer_s: float  # with each peer,
    p2p_simple_s: float  # and with Simple
    nvls_s: float = 0.0  # NVLS takes longer to begin,
    nvls_ramp_s: float = 0.0  # loses up to this much,
    nvls_ramp_bytes: float = 1.0  # half of it at this size
    nvls_frac: float = 1.0  # of NCCL's own NVLS bandwidth; set by hand on the slopes of H100 and B200


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounts:
    """Channels that NCCL opens, as its logs print them ("24 coll channels, 16 nvls channels"); 0 where none was found.

    A collective runs on all of them or fewer, by its size: see `timing.channel_forms`.
    """

    num_node: int = 0  # of rings inside a node
    num_node_nvls: int = 0
    num_network: int = 0  # of rings and trees over several nodes,
    num_network_nvls: int = 0  # and of NVLS tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One node of GPUs as NCCL sees it. Bandwidths are per GPU and direction.

    From NCCL's source: `link_bytes_per_s` over NVLink (links times the rate NCCL counts with), `ll_cap_bytes_per_s` in
    one node, over two and over more (llMaxBws), `nvls_efficiency_frac` (nvlsEfficiency). `tuner_bytes_per_s` is the
    ring bandwidth of its tuner, inferred from its tables of speeds. Fitted: the seconds and the ratio.
    """

    name: str
    link: str
    link_bytes_per_s: tuple[tuple[int, float], ...]  # by number of ranks
    tuner_bytes_per_s: float
    ll_cap_bytes_per_s: tuple[float, float, float]
    has_ll128: bool
    nvls_efficiency_frac: float  # 0 where there is no NVLS
    base_s: float  # of any collective
    hop_s: float  # from rank to rank by LL
    channels_s: float  # of running on more than one channel
    chunk_s: float  # of one more chunk in the pipeline of Simple
    p2p_own_chunk_ratio: float
    tuner: TunerSteps
    protocols: ProtocolConstants
    fitted_on: str
    channels: ChannelCounts = ChannelCounts()

    def __post_init__(self) -> None:
        if not self.link_bytes_per_s or min(rate for _, rate in self.link_bytes_per_s) <= 0:
            raise InvalidInput(f"platform {self.name} needs a link bandwidth above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConstants:
    """NICs between nodes, as NCCL uses them: three constants fitted on two nodes of 8 H100 with EFA, the others not."""

    nic_frac: float = 0.85  # of the NICs' rate: 340 of 400 GB/s, the 4 GiB row of two MI300X nodes
    step_s: float = 42.7 * MICRO  # per level of a tree, and per hop of a ring, that crosses the network
    fill_s: float = 250 * MICRO  # to fill the pipeline of the node and the network, at most,
    fill_bytes: float = 31.7 * MEBI  # and half of that at this size: chunks grow with the size up to a largest
    pat_step_ratio: float = 1 / 3.5  # of a step of the network, and per rank below: NCCL's tuner, not fitted
    pat_rank_s: float = 2.8 * MICRO
    tree_frac: float = 0.92  # of the ring's bandwidth inside a node: NCCL's tuner, not fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPlatform:
    """RCCL over several nodes: one ring over all ranks, bound by the NICs. Fitted on two nodes of 8 MI300X."""

    name: str
    hop_s: float
    chunk_s: float
    nic_frac: float
    fitted_on: str


NVLINK_TUNER = TunerSteps(
    base_s=(6.6 * MICRO, 14.0 * MICRO, 8.4 * MICRO), step_s=(0.6 * MICRO, 1.9 * MICRO, 3.4 * MICRO), nvls_s=25 * MICRO
)
PCIE_TUNER = TunerSteps(base_s=(6.6 * MICRO, 14.0 * MICRO, 8.4 * MICRO), step_s=(1.0 * MICRO, 2.5 * MICRO, 5.7 * MICRO))
NVLINK = ProtocolConstants(
    ll_frac=0.415,
    ll_own_chunk_ratio=1.0,  # flags make a rank's own chunk as dear as one that is sent; not fitted
    ll128_frac=0.800,
    ll128_hop_ratio=2.31,
    simple_frac=1.0,  # NCCL's own figure for the links is reached; fitted it comes to 0.998
    simple_hop_ratio=6.94,
    simple_s=2.19 * MICRO,
    own_chunk_ratio=0.396,
    p2p_s=1.88 * MICRO,
    p2p_peer_s=0.355 * MICRO,
    p2p_simple_s=1.59 * MICRO,
    nvls_s=13.8 * MICRO,
    nvls_ramp_s=89.0 * MICRO,
    nvls_ramp_bytes=15.3 * MEBI,
    nvls_frac=0.92,
)
PCIE = ProtocolConstants(
    ll_frac=0.556,
    ll_own_chunk_ratio=0.0,  # copies inside a GPU are nothing beside PCIe; not fitted, nor the other zeros
    ll128_frac=1.0,
    ll128_hop_ratio=1.0,
    simple_frac=1.0,  # the bandwidth itself is fitted
    simple_hop_ratio=14.9,
    simple_s=0.0,
    own_chunk_ratio=0.0,
    p2p_s=3.92 * MICRO,
    p2p_peer_s=0.0,
    p2p_simple_s=0.0,
)

AMPERE = Platform(
    name="A100",
    link="NVLink",
    link_bytes_per_s=((2, 12 * 20.0 * GIGA),),
    tuner_bytes_per_s=240 * GIGA,
    ll_cap_bytes_per_s=(87.7 * GIGA, 22.5 * GIGA, 19.0 * GIGA),
    has_ll128=True,
    nvls_efficiency_frac=0.0,
    base_s=7.95 * MICRO,
    hop_s=1.08 * MICRO,
    channels_s=2.99 * MICRO,
    chunk_s=4.39 * MICRO,
    p2p_own_chunk_ratio=0.269,
    tuner=NVLINK_TUNER,
    protocols=NVLINK,
    fitted_on="132 rows of A100 SXM, NCCL 2.27.3",
    channels=ChannelCounts(num_node=24),  # logs of 8 A100 SXM: NVIDIA/nccl-tests issue 100
)
HOPPER = Platform(
    name="H100",
    link="NVLink",
    link_bytes_per_s=((2, 18 * 20.6 * GIGA),),
    tuner_bytes_per_s=360 * GIGA,
    ll_cap_bytes_per_s=(141 * GIGA, 45 * GIGA, 35 * GIGA),
    has_ll128=True,
    nvls_efficiency_frac=0.85,
    base_s=4.45 * MICRO,
    hop_s=0.915 * MICRO,
    channels_s=1.46 * MICRO,
    chunk_s=1.61 * MICRO,
    p2p_own_chunk_ratio=0.248,
    tuner=NVLINK_TUNER,
    protocols=NVLINK,
    fitted_on="354 rows of H100 SXM, NCCL 2.23, 2.27.3 and 2.29.2",
    channels=ChannelCounts(num_node=24, num_node_nvls=16, num_network=16, num_network_nvls=16),  # logs of 1 and 2 p5
)
BLACKWELL = Platform(
    name="B200",
    link="NVLink",
    link_bytes_per_s=((2, 18 * 40.1 * GIGA),),
    tuner_bytes_per_s=720 * GIGA,
    ll_cap_bytes_per_s=(282 * GIGA, 90 * GIGA, 70 * GIGA),
    # Two of four releases on B200 run as if LL128 were selected between 5 and 46 MB, the others as if it were off.
    has_ll128=False,
    nvls_efficiency_frac=0.74,
    base_s=6.94 * MICRO,
    hop_s=1.40 * MICRO,
    channels_s=1.63 * MICRO,
    chunk_s=1.78 * MICRO,
    p2p_own_chunk_ratio=0.973,
    tuner=NVLINK_TUNER,
    protocols=NVLINK,
    fitted_on="528 rows of B200 SXM, NCCL 2.27.3, 2.27.5, 2.28.9 and 2.29.2",
    channels=ChannelCounts(num_node=32, num_node_nvls=24),  # logs of 8 B200: NVIDIA/nccl issue 1646, and of GB200
)
ADA_PCIE = Platform(
    name="L40S",
    link="PCIe",
    link_bytes_per_s=((2, 20.9 * GIGA), (4, 5.18 * GIGA), (8, 1.37 * GIGA)),
    tuner_bytes_per_s=24 * GIGA,
    ll_cap_bytes_per_s=(87.7 * GIGA, 22.5 * GIGA, 19.0 * GIGA),
    has_ll128=False,
    nvls_efficiency_frac=0.0,
    base_s=5.13 * MICRO,
    hop_s=1.16 * MICRO,
    channels_s=0.0,
    chunk_s=1.05 * MICRO,
    p2p_own_chunk_ratio=0.0,
    tuner=PCIE_TUNER,
    protocols=PCIE,
    fitted_on="132 rows of L40S, NCCL 2.27.3, the bandwidth by number of ranks among them",
)
BLACKWELL_PCIE = replace(
    ADA_PCIE,
    name="RTX PRO 6000",
    # What one 128 MiB all-gather over each number of ranks says with the constants of L40S.
    link_bytes_per_s=((2, 33.3 * GIGA), (4, 24.0 * GIGA), (8, 23.1 * GIGA)),
    tuner_bytes_per_s=48 * GIGA,  # PCIe 5.0, twice that of L40S's 4.0
    ll_cap_bytes_per_s=BLACKWELL.ll_cap_bytes_per_s,
    fitted_on="three all-gathers of 128 MiB, over 2, 4 and 8 GPUs, for the bandwidth; else as L40S",
)
MI300X = RingPlatform(
    name="MI300X",
    hop_s=129.7 * MICRO / 30,  # a ring of 16 ranks has 30 hops
    chunk_s=26.8 * MICRO,
    nic_frac=0.906,
    fitted_on="5 rows of two nodes of 8 MI300X, RCCL",
)

# Generations by the names that their products have in tables and in headers of logs; the longer names first.
_PRODUCTS: tuple[tuple[str, Platform | RingPlatform], ...] = (
    ("gb300", BLACKWELL), ("gb200", BLACKWELL), ("b300", BLACKWELL), ("b200", BLACKWELL), ("h200", HOPPER),
    ("h100", HOPPER), ("a100", AMPERE), ("l40s", ADA_PCIE), ("rtxpro6000", BLACKWELL_PCIE), ("mi300x", MI300X),
)  # fmt: skip


# Products that nothing was measured on, by the generation that is nearest: their NVLink beside that generation's.
_NEAREST: tuple[tuple[str, Platform, float], ...] = (
    ("gh200", HOPPER, 1.0), ("h800", HOPPER, 8 / 18), ("h20", HOPPER, 1.0), ("a800", AMPERE, 8 / 12),
    ("v100", AMPERE, 6 / 12), ("b100", BLACKWELL, 1.0), ("vr200", BLACKWELL, 2.0), ("rubin", BLACKWELL, 2.0),
)  # fmt: skip
_NVLINK_WORDS = ("sxm", "hgx", "dgx", "nvlink", "nvl72", "nvl144")  # of names of systems whose GPUs NVLink joins


def platform_of(product: str) -> Platform | RingPlatform:
    """The platform that a product is of, whatever else its name says: `h100_sxm`, `NVIDIA H100 80GB HBM3`.

    Cards of the same chips without NVLink are refused, as nothing was measured on them.
    """
    plain = plain_name(product)
    for name, platform in _PRODUCTS:
        if name in plain:
            if getattr(platform, "link", "") == "NVLink" and ("pcie" in plain or "nvl" in plain.replace("nvl72", "")):
                raise NotModelled(f"collectives of {product[:40]!r} are not modelled: nothing was measured on it")
            return platform
    known = ", ".join(sorted(name for name, _ in _PRODUCTS))
    raise NotModelled(f"no platform of collectives is named {product[:40]!r}; known are {known}")


def nearest_platform(product: str) -> tuple[Platform | RingPlatform, str]:
    """The platform of a product, or the nearest generation and the words that say so; raises where there is none.

    Bandwidth over PCIe depends on the server, by factors, so that cards that were not measured are not modelled.
    """
    try:
        return platform_of(product), ""
    except NotModelled as error:
        plain = plain_name(product)
        near, ratio = next(
            ((platform, ratio) for name, platform, ratio in _NEAREST if name in plain and "pcie" not in plain),
            (BLACKWELL, 1.0) if any(word in plain for word in _NVLINK_WORDS) else (None, 1.0),
        )
        if near is None:
            way_out = "one large all-gather for each number of ranks calibrates it: dovetail calibrate FILE"
            raise NotModelled(f"{error.message}; {way_out}") from None
    rates = tuple((count, rate * ratio) for count, rate in near.link_bytes_per_s)
    one, two, more = (cap * ratio for cap in near.ll_cap_bytes_per_s)
    scaled = replace(
        near,
        name=near.name if ratio == 1 else f"{near.name} with {ratio:.2g} of its links",
        link_bytes_per_s=rates,
        tuner_bytes_per_s=near.tuner_bytes_per_s * ratio,
        ll_cap_bytes_per_s=(one, two, more),
    )
    return scaled, f"outside the evidence, as {scaled.name}"


def plain_name(product: str) -> str:
    """Letters and digits of a product's name, in lower case."""
    return re.sub(r"[^a-z0-9]", "", product.lower())
