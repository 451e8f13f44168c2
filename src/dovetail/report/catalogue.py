"""Catalogue entries as plain data for JSON: every figure, and where it comes from."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from typing import Any

from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import HeterogeneousCluster, chip_names
from dovetail.hardware.host import Host
from dovetail.hardware.memory import ASSUMED_SOURCES
from dovetail.hardware.topology import Dimension
from dovetail.parallel.recipes import PlanEntry
from dovetail.report.captured import captured_brief
from dovetail.report.outcome import plain, plan_record
from dovetail.report.plain import Record
from dovetail.report.silicon import silicon_record
from dovetail.stable_names import stable_names_of
from dovetail.workload.graph import Block
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.workload import Workload

_NOT_FIGURES = {
    "name",
    "vendor",
    "process",
    "sources",
    "facts",
    "measured",
    "calibration.fitted_on",
    "calibration.family",
}

_UNCALIBRATED = {"calibration.host_slowdown": 1.0}  # of the host beside a chip: a figure once it is calibrated
_PEAKS = "tensor.peak_flop_per_s."  # what a record calls the rates of a chip's tensor units


def model_brief(model: Model) -> Record:
    """One line of the model catalogue; parameters and layers are counted from the graph."""
    graph = model.forward(_one_sample(model).sample)
    return {
        "name": model.name,
        "family": model.family,
        "num_parameters": graph.num_parameters,
        "published_parameters": model.published_parameters,
        "is_exact": model.is_exact,
        "num_layers": graph.num_layers,
        "seq": model.seq,
        "sample": model.sample,
        "source": model.source,
    }


def model_record(model: Model) -> Record:
    """A model with its configuration, and its blocks at one sample of its own length."""
    graph = _one_sample(model).training_graph()
    forward = model.forward(_one_sample(model).sample).blocks
    architecture: Any = model.architecture  # every kind is a dataclass; the protocol cannot say so
    return {
        "kind": "model",
        **model_brief(model),
        "global_batch": model.batch,
        "notes": list(model.notes),
        "model_flop": graph.model_flop,
        "config": _config(architecture),
        "blocks": [_block_record(*both) for both in zip(graph.blocks, forward, strict=True)],
    }


def _config(architecture: Any) -> Record:
    """Its fields; of a captured model, which has thousands, what it says of itself."""
    if isinstance(architecture, Captured):
        return captured_brief(architecture)
    found: Record = plain(asdict(architecture))
    return found


def _one_sample(model: Model) -> Workload:
    return Workload(model=model, global_batch=1, seq=model.seq)


def _block_record(block: Block, forward: Block) -> Record:
    """One repeat of a block over one sample; FLOP of matrix products, by the field's convention."""
    return {
        "name": block.name,
        "repeat": block.repeat,
        "num_parameters": block.num_parameters,
        "forward_flop": float(forward.ops.model_flop.sum()),
        "training_flop": float(block.ops.model_flop.sum()),
    }


def chip_brief(chip: Chip) -> Record:
    return {
        "name": chip.name,
        "vendor": chip.vendor,
        "year": chip.year,
        "peak_flop_per_s": dict(chip.tensor.rates),
        "hbm_bytes": chip.hbm.capacity_bytes,
        "hbm_bytes_per_s": chip.hbm.bandwidth_bytes_per_s,
        "tdp_w": chip.tdp_w,
    }


def chip_record(chip: Chip) -> Record:
    """A chip with every figure by its path, its value in base units and its source."""
    assumed = {"endpoint": f"assumed: {chip.endpoint_kind.summary}", **dict(ASSUMED_SOURCES)}
    sources = {**assumed, **dict(chip.sources)}
    figures = [
        {"figure": path, "value": plain(value), "source": source_of(path.replace(_PEAKS, "tensor.rates."), sources)}
        for path, value in chip_figures(chip)
    ]
    return {
        "kind": "chip",
        **chip_brief(chip),
        "process": chip.process,
        "visible_bytes": chip.visible_bytes,
        "usable_bytes": chip.usable_bytes,
        "fitted_on": chip.calibration.fitted_on,
        "silicon": silicon_record(chip),
        "figures": figures,
        "facts": [{"what": what, "value": value, "source": source} for what, value, source in chip.facts],
    }


def chip_figures(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every number of a chip under its dotted path; peak rates one by one."""
    found: list[tuple[str, Any]] = []
    names = stable_names_of(type(value))  # as the record had them before a field was renamed
    for field in fields(value):
        here, part = f"{path}{names[field.name]}", getattr(value, field.name)
        if here in _NOT_FIGURES or part is None or _UNCALIBRATED.get(here) == part:
            continue
        if here == "tensor.rates":
            found += [(f"{_PEAKS}{dtype}", rate) for dtype, rate in part]
        else:
            found += chip_figures(part, f"{here}.") if is_dataclass(part) else [(here, part)]
    return found


def source_of(path: str, sources: dict[str, str]) -> str:
    """The source of a figure: its own, or that of the part it belongs to."""
    while path:
        if path in sources:
            return sources[path]
        path = path.rpartition(".")[0]
    return ""


def cluster_brief(cluster: Cluster) -> Record:
    dimensions = [{"name": d.name, "kind": d.kind, "num_devices": d.num_devices} for d in cluster.topology.dimensions]
    return {
        "name": cluster.name,
        "chip": cluster.chip.name,
        "num_devices": cluster.num_devices,
        "dimensions": dimensions,
    }


def dimension_record(dimension: Dimension) -> Record:
    return {
        "name": dimension.name,
        "kind": dimension.kind,
        "num_devices": dimension.num_devices,
        "bandwidth_bytes_per_s": dimension.link.bandwidth_bytes_per_s,
        "latency_s": dimension.link.latency_s,
        "oversubscription": dimension.oversubscription,
        "library": dimension.library,
        "is_network": dimension.is_network,
    }


def host_record(host: Host) -> Record:
    return {
        "num_devices": host.num_devices,
        "link_bytes_per_s": host.link.bandwidth_bytes_per_s,
        "latency_s": host.link.latency_s,
        "memory_bytes": host.memory_bytes,
        "memory_bytes_per_s": host.memory_bytes_per_s,
    }


def mixed_cluster_record(cluster: HeterogeneousCluster) -> Record:
    """A cluster of several pools, whose one dimension is what joins them."""
    [span] = cluster.group_between
    return {
        "kind": "cluster",
        "name": cluster.name,
        "chip": chip_names(cluster),
        "num_devices": cluster.num_devices,
        "summary": f"{len(cluster.pools)} pools: {', '.join(pool.name for pool in cluster.pools)}",
        "dimensions": [dimension_record(span.dimension) | {"num_devices": cluster.num_devices}],
        "hosts": [],
        "sources": [{"figure": figure, "source": source} for figure, source in cluster.sources],
    }


def cluster_record(cluster: Cluster, summary: str = "") -> Record:
    """A cluster with its network, dimension by dimension, innermost first."""
    dimensions = [dimension_record(dimension) for dimension in cluster.topology.dimensions]
    return {
        "kind": "cluster",
        **cluster_brief(cluster),
        "summary": summary,
        "dimensions": dimensions,
        "hosts": [host_record(cluster.host)] if isinstance(cluster.host, Host) else [],
        "sources": [{"figure": figure, "source": source} for figure, source in cluster.sources],
    }


def plan_entry_record(name: str, entry: PlanEntry) -> Record:
    return {
        "kind": "plan",
        "name": name,
        "summary": entry.summary,
        "fills_data_parallel": entry.fills_data_parallel,
        "num_devices": entry.plan.num_devices,
        "source": entry.source,
        "plan": plan_record(entry.plan),
    }
