"""A job as the spec that describes it, whole: model, chip, network and plan, so that it gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail.cost.engines import with_endpoint
from dovetail.errors import NotModelled
from dovetail.files.captured import captured_entries
from dovetail.files.schema import MAX_TEXT_CHARACTERS
from dovetail.files.text import one_line
from dovetail.files.value_formats import Words, entries_of, quantity_text, yaml_lines
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.endpoints import SM_DRIVEN
from dovetail.hardware.host import NoHost
from dovetail.hardware.reliability import NotStated
from dovetail.hardware.topology import Dimension
from dovetail.parallel.plan import Plan
from dovetail.registry import Registry
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.routing import EVENLY
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload


def job_text(name: str, workload: Workload, cluster: Cluster, plan: Plan, notes: tuple[str, ...] = ()) -> str:
    """A spec for `dovetail simulate`, which predicts the same from it as from these values; `notes` are comments."""
    words = {
        "name": _text(name),
        "workload": workload_entries(workload),
        "cluster": cluster_entries(cluster),
        "plan": entries_of(plan),
    }
    remarks = (f"# {one_line(remark)}" for remark in ("Written by Dovetail; dovetail simulate takes it.", *notes))
    return "\n".join((*remarks, *yaml_lines(words))) + "\n"


def workload_entries(workload: Workload) -> Words:
    more: Words = {} if workload.routing == EVENLY else {"routing": entries_of(workload.routing)}
    more |= {"lora": entries_of(workload.lora)} if workload.lora.is_used else {}
    return {
        "model": model_entries(workload.model),
        "global_batch": workload.global_batch,
        "seq": workload.seq,
        "attention": workload.attention,
        "kernels": workload.kernels,
        "precision": entries_of(workload.precision),
        **more,
    }


def model_entries(model: Model) -> Words | str:
    """Its name where the catalogue has just this one; else written out."""
    if _is_known(models, model.name, model):
        return model.name
    if isinstance(model.architecture, Captured):
        return captured_entries(model.architecture)
    if not isinstance(model.architecture, Transformer):
        message = (
            f"a model that is no transformer is written by its catalogue name, and the one of {one_line(model.name)}"
        )
        raise NotModelled(f"{message} is another")
    more = {"source": _text(model.source)} if model.source else {}
    return {**entries_of(model.architecture), "seq": model.seq, "batch": model.batch, **more}


def chip_entries(chip: Chip) -> Words:
    """Every figure of a chip; the power of its endpoint's engines is added when it is read."""
    words = entries_of(with_endpoint(chip, SM_DRIVEN)) | {"endpoint": chip.endpoint, "name": _text(chip.name)}
    if chip.calibration.family:  # what is nothing here may be something in its family
        words["calibration"] = entries_of(chip.calibration, is_whole=True)
    words["calibration"]["fitted_on"] = _text(chip.calibration.fitted_on)
    return words


def named_chip(chip: Chip) -> Words | str:
    """Its name where the catalogue has just this one; else written out."""
    return chip.name if _is_known(chips, chip.name, chip) else chip_entries(chip)


def cluster_entries(cluster: Cluster) -> Words:
    if not isinstance(cluster.host, NoHost) or not isinstance(cluster.reliability, NotStated):
        raise NotModelled(f"the host and the failures of {one_line(cluster.name)} cannot be written here")
    return {
        "name": _text(cluster.name),
        "chip": chip_entries(cluster.chip),
        "topology": [_dimension_entries(dimension) for dimension in cluster.topology.dimensions],
    }


def _dimension_entries(dimension: Dimension) -> Words:
    return {
        "name": dimension.name,
        "kind": dimension.kind,
        "devices": dimension.num_devices,
        "bandwidth": quantity_text(dimension.link.bandwidth_bytes_per_s, "bytes_per_s"),
        "latency": quantity_text(dimension.link.latency_s, "s"),
        "oversubscription": float(dimension.oversubscription),
        **({"library": dimension.library, "network": dimension.is_network} if dimension.library else {}),
    }


def _is_known(registry: Registry[Callable[[], Any]], name: str, value: object) -> bool:
    return name in registry and registry[name]() == value


def _text(text: str) -> str:
    """As long as a spec takes it."""
    return one_line(text)[:MAX_TEXT_CHARACTERS]
