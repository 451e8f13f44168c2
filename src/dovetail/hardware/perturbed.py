"""A cluster with a little more of one resource at a time: what an elasticity asks about."""

from __future__ import annotations

from dataclasses import fields, replace

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster


def perturbed_clusters(cluster: Cluster, more_frac: float) -> dict[str, Cluster]:
    """`cluster` with so much more of one resource at a time, by its name; of latency, with as much less.

    Of a chip with measured times only the network changes: they would hold for no other chip.
    """
    more = 1.0 + more_frac
    chips = {} if cluster.chip.measured else _perturbed_chips(cluster.chip, more)
    nudged = {resource: replace(cluster, chip=changed) for resource, changed in chips.items()}
    for dimension in cluster.topology.dimensions:
        topology = cluster.topology.with_link_scaled(dimension.name, more)
        nudged[f"{dimension.name} bandwidth"] = replace(cluster, topology=topology)
    nudged["link latency"] = replace(cluster, topology=cluster.topology.with_latency_scaled(1.0 / more))
    return nudged


def _perturbed_chips(chip: Chip, more: float) -> dict[str, Chip]:
    return {
        "tensor FLOP/s": replace(chip, tensor=chip.tensor.scaled(more)),
        "vector FLOP/s": replace(chip, vector=replace(chip.vector, peak_flop_per_s=chip.vector.peak_flop_per_s * more)),
        "SRAM bandwidth": _faster_sram(chip, more),
        "HBM bandwidth": replace(
            chip, hbm=replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * more)
        ),
        "launch rate": _scaled_calibration(chip, "launch_s", 1.0 / more),
        "host speed": _scaled_calibration(chip, "host_", 1.0 / more),
        "power limit": replace(chip, tdp_w=chip.tdp_w * more),
    }


def _faster_sram(chip: Chip, more: float) -> Chip:
    """Every memory on the chip: the shared SRAM, and vector memory where there is one."""
    memory = chip.vector_memory
    return replace(
        chip,
        sram=replace(chip.sram, bandwidth_bytes_per_s=chip.sram.bandwidth_bytes_per_s * more),
        vector_memory=memory and replace(memory, bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s * more),
    )


def _scaled_calibration(chip: Chip, prefix: str, factor: float) -> Chip:
    """`chip` with the calibrated numbers whose names begin with `prefix` scaled."""
    names = [field.name for field in fields(chip.calibration) if field.name.startswith(prefix)]
    scaled = {name: factor * getattr(chip.calibration, name) for name in names}
    return replace(chip, calibration=replace(chip.calibration, **scaled))
