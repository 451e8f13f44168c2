"""The cluster of a run from the words of its table: chip, devices on one switch, network port a device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.accuracy.runs.row import Row
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.memory import Memory
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import BITS_PER_BYTE, GIBI, GIGA, MICRO, TERA

GIGABIT = GIGA / BITS_PER_BYTE
NVLINK_LATENCY_S = 1.9 * MICRO  # as in the clusters of the catalogue: NCCL's tuning model, LL128
NETWORK_LATENCY_S = 4.0 * MICRO  # likewise
# Software until 2024 reaches this share of what large products do on Hopper with today's libraries. Estimate, from the
# rows of llm-foundry, NeMo 24.07, MLPerf 3.1 and 4.0 and TorchTitan 2024 (decision 90). Rows of other chips do not tell
# such a share: those of A100 and Blackwell are off in both directions.
EARLY_HOPPER_FRAC, EARLY_HOPPER_YEARS = 0.90, range(2022, 2025)
HOPPER = ("h100", "h200", "h800", "gh200")
NCCL_A100, NCCL_H100, NCCL_B200 = "nccl-a100", "nccl-h100", "nccl-b200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the words of a table stand for."""

    chip: Chip
    num_domain: int
    port_bytes_per_s: float
    library: str = ""  # of its collectives, see `comm.library.on_group`


def _hbm2e_h100() -> Chip:
    """Meta's H100: 96 GB of HBM2e at 2.4 TB/s and 500 W (torchtitan's benchmark notes)."""
    base = chips["h100-sxm"]()
    hbm = Memory(capacity_bytes=96 * GIBI, bandwidth_bytes_per_s=2.4 * TERA)
    return replace(base, name="h100-96gb-500w", hbm=hbm, tdp_w=500.0)


def machine_of(row: Row) -> Machine:
    """The machine of a run, with products at the pace that its software had."""
    machine = _machine_as_sold(row)
    if is_early_hopper(row):
        calibration = machine.chip.calibration
        slower = replace(calibration, tensor_frac=EARLY_HOPPER_FRAC * calibration.tensor_frac)
        return replace(machine, chip=replace(machine.chip, calibration=slower))
    return machine


def is_early_hopper(row: Row) -> bool:
    """Whether a run is on a Hopper with software of the years in which its kernels came of age."""
    return row.software_year in EARLY_HOPPER_YEARS and _machine_as_sold(row).chip.name.startswith(HOPPER)


def _machine_as_sold(row: Row) -> Machine:
    """By the words of the chip's column; what is not given of the network is as in its vendor's reference system."""
    words = row.word("gpu").lower()
    if "gb300" in words:
        return Machine(
            chip=chips["gb300"](),
            num_domain=72,
            port_bytes_per_s=800 * GIGABIT,
            library=NCCL_B200,
        )
    if "gb200" in words:
        return Machine(chip=chips["gb200"](), num_domain=72, port_bytes_per_s=400 * GIGABIT, library=NCCL_B200)
    if "b300" in words:
        return Machine(
            chip=chips["b300"](),
            num_domain=8,
            port_bytes_per_s=800 * GIGABIT,
            library=NCCL_B200,
        )
    if "b200" in words:
        return Machine(chip=chips["b200"](), num_domain=8, port_bytes_per_s=400 * GIGABIT, library=NCCL_B200)
    if "h200" in words:
        return Machine(chip=chips["h200-sxm"](), num_domain=8, port_bytes_per_s=400 * GIGABIT, library=NCCL_H100)
    if "500w" in words:
        return Machine(chip=_hbm2e_h100(), num_domain=8, port_bytes_per_s=400 * GIGABIT, library=NCCL_H100)
    if "h100" in words:
        return Machine(chip=chips["h100-sxm"](), num_domain=8, port_bytes_per_s=400 * GIGABIT, library=NCCL_H100)
    if "a100" in words:
        is_small = "40gb" in words
        chip = chips["a100-40gb-sxm" if is_small else "a100-80gb-sxm"]()
        return Machine(chip=chip, num_domain=8, port_bytes_per_s=_a100_port(words) * GIGABIT, library=NCCL_A100)
    if "h800" in words:
        # as the H100, with links of 400 GB/s both ways (arXiv:2412.19437, section 3.1)
        chip = replace(chips["h100-sxm"](), name="h800-sxm", interconnect_bytes_per_s=200 * GIGA)
        return Machine(chip=chip, num_domain=8, port_bytes_per_s=400 * GIGABIT, library=NCCL_H100)
    for word, name in (("mi300x", "mi300x"), ("gaudi2", "gaudi2"), ("gaudi3", "gaudi3")):
        if word in words.replace(" ", ""):
            library = "rccl-mi300x" if name == "mi300x" else ""
            return Machine(chip=chips[name](), num_domain=8, port_bytes_per_s=400 * GIGABIT, library=library)
    raise NotModelled(f"no chip is known by {row.word('gpu')[:40]!r}")


def _a100_port(words: str) -> float:
    """Gb/s a device: eight 200 Gb/s ports a node unless the table says less."""
    if "4x100g" in words:
        return 50.0
    if "bandwidth 800" in words:
        return 100.0
    return 200.0


def cluster_of(row: Row) -> Cluster:
    """All devices of a run: whole domains, and a non-blocking network between them."""
    machine, num_devices = machine_of(row), row.count("n_gpus")
    num_domain = next(n for n in range(min(machine.num_domain, num_devices), 0, -1) if _nests(n, num_devices, row))
    inside = Link(bandwidth_bytes_per_s=machine.chip.interconnect_bytes_per_s, latency_s=NVLINK_LATENCY_S)
    dimensions = [Dimension(name="nvlink", kind="switch", num_devices=num_domain, link=inside, library=machine.library)]
    if num_devices > num_domain:
        outside = Link(bandwidth_bytes_per_s=machine.port_bytes_per_s, latency_s=NETWORK_LATENCY_S)
        count = num_devices // num_domain
        dimensions.append(
            Dimension(
                name="network",
                kind="fat-tree",
                num_devices=count,
                link=outside,
                library=machine.library,
                is_network=True,
            )
        )
    return Cluster(name="published", chip=machine.chip, topology=Topology(dimensions=tuple(dimensions)), sources=())


def _nests(num_domain: int, num_devices: int, row: Row) -> bool:
    """Whether domains of this size hold the job evenly, and model-parallel groups whole or are held whole by them."""
    if num_devices % num_domain:
        return False
    inner = row.count("TP", 1) * row.count("CP", 1)
    return num_domain % inner == 0 or inner % num_domain == 0
