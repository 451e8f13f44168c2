"""The names by which types and their fields are known in store keys, kept rows and model files.

A study is kept under a hash of the values that it follows from, and files hold values by the names of their fields.
Both outlive the code, so neither may follow a name in it. `TYPES` says for each class what it is called on disk. It
began with the names of 0.1, and these never change. Whoever

- renames a class changes its key in `TYPES`, and nothing behind the key;
- renames a field writes `new=old` in place of `old`;
- renames a value that is a name writes the old one under `values`, and has the class read both;
- adds a field writes it under `later`, with the value at which answers are what they were without it. At that value
  it is left out of keys and files, so studies that know nothing of the field are still found;
- changes what a field means, so that an equal number is another fact, raises `version`: studies of the class begin
  again.

`tests/unit/test_stable_names.py` names whatever is missing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import MappingProxyType
from typing import Any

NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StableField:
    """A field of a class, and what it is called on disk."""

    python: str
    stable: str
    is_later: bool = False  # added after 0.1: left out where it is `absent`
    absent: Any = None
    old_values: Mapping[str, Any] = field(default_factory=dict)  # of values that are names: what disks call them

    def stable_value(self, value: Any) -> Any:
        """`value` as it is called on disk."""
        if isinstance(value, tuple) and self.old_values:
            return tuple(self.stable_value(item) for item in value)
        return self.old_values.get(value, value) if self.old_values else value


@dataclass(frozen=True, slots=True, kw_only=True)
class StableType:
    """What a class is called on disk, and its fields in the order in which they are hashed."""

    stable: str
    fields: tuple[StableField, ...]
    version: int = 1

    @property
    def word(self) -> str:
        """What begins a value of this type in a hash; 0.1 knew no versions, so the first is not said."""
        return self.stable if self.version == 1 else f"{self.stable}@{self.version}"

    def python_names(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """What was written under stable names, under those of the code; raises `KeyError` for a name of no field."""
        python = {each.stable: each.python for each in self.fields}
        return {python[name]: value for name, value in written.items()}


def _stable(
    name: str,
    fields: str,
    *,
    version: int = 1,
    later: Mapping[str, Any] = NONE,
    values: Mapping[str, Mapping[str, Any]] = NONE,
) -> StableType:
    """`fields` in order, each as `stable` or as `python=stable`; so are the keys of `later`, each with its `absent`.

    `values` has, of fields that hold names, those that are called otherwise in the code than on disk.
    """
    words = [(word.split("=")[0], word.split("=")[-1]) for word in fields.split()]
    first = [StableField(python=python, stable=old, old_values=values.get(python, NONE)) for python, old in words]
    more = [
        StableField(python=word.split("=")[0], stable=word.split("=")[-1], is_later=True, absent=absent)
        for word, absent in later.items()
    ]
    return StableType(stable=name, fields=(*first, *more), version=version)


def stable_type(kind: type) -> StableType:
    """What `kind` is called on disk; fails where nobody has said."""
    found = TYPES.get(kind.__name__)
    assert found is not None, f"{kind.__name__} has no stable name; add it to TYPES of dovetail/stable_names.py"
    return found


def stable_names_of(kind: type) -> dict[str, str]:
    """By the names that the fields of `kind` have in the code, those that they have on disk."""
    return {field.python: field.stable for field in stable_type(kind).fields}


def stable_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """(stable name, value) of the fields of a dataclass; those added later are left out where they say nothing."""
    for each in stable_type(type(value)).fields:
        own = getattr(value, each.python)
        if not (each.is_later and type(own) is type(each.absent) and own == each.absent):
            yield each.stable, each.stable_value(own)


def stable_facts(value: Any) -> Any:
    """`value` as plain data, as `dataclasses.asdict` has it, but under stable names."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: stable_facts(own) for name, own in stable_fields(value)}
    if isinstance(value, tuple | list):
        return type(value)(stable_facts(item) for item in value)
    if isinstance(value, dict):
        return {key: stable_facts(item) for key, item in value.items()}
    return value


_POLICIES = {"norm-activation": "light", "selective-op": "alternate"}  # of recompute

# By the name of the class in the code: its stable name, and its fields.
TYPES: Mapping[str, StableType] = {
    "TrainingJob": _stable("TrainingJob", "name stages num_microbatches num_devices num_samples"),
    "Load": _stable("Load", "passes updates per_step_s=once_s forward_frac"),
    "Repeated": _stable("Repeated", "work count"),
    "Work": _stable("Work", "ops dag tensors exchange_s"),
    "Ops": _stable(
        "Ops",
        "names kind phase dtype math extents splits stride distinct_frac work_frac weight_elements "
        "weight_split gradient_elements gradient_split bias_elements bias_split is_tied is_core is_fused "
        "is_compiled need kept_bytes_per_element side_bytes_per_element edge_start edge_to",
    ),
    "Tensors": _stable("Tensors", "maker tensor_bytes use_start use_to resident_bytes"),
    "Chip": _stable(
        "Chip",
        "name vendor year process clock_hz tensor vector core_buffer_bytes sram hbm tdp_w "
        "interconnect_bytes_per_s calibration energy die sources facts endpoint measured",
        later={"hbm_visible_frac": 1.0, "hbm_reserve_frac": 0.04, "vector_memory": None},
    ),
    "TensorUnits": _stable(
        "TensorUnits",
        "num_units num_rows num_cols tiling rates",
        later={"buffer_bytes": 131072.0, "converted": ()},
    ),
    "Tiling": _stable(
        "Tiling",
        "tiles stationary num_steps fill staging_bytes is_output_hidden num_cluster_units num_groups",
        later={"is_array": False, "num_loaded_rows": 1},
    ),
    "VectorUnits": _stable("VectorUnits", "num_units num_lanes peak_flop_per_s"),
    "Memory": _stable("Memory", "capacity_bytes bandwidth_bytes_per_s"),
    "Calibration": _stable(
        "Calibration",
        "tensor_frac vector_frac hbm_frac link_frac exchange_s launch_s alone_s fill_s tile_step_s=step_s split_s "
        "sram_reuse stream_frac write_frac wait_s clock_spread_frac power_loop_s host_kernel_s "
        "host_gradient_s host_autograd_s host_exchange_s host_op_s host_call_s host_backward_s host_rerun_s "
        "fitted_on",
        later={
            "conversion_slots": 0.0,
            "conversion_result_slots": 0.0,
            "visits_ratio": 1.0,
            "overlap_frac": 0.0,
            "lanes_frac": 1.0,
            "host_slowdown": 1.0,
            "family": "",
        },
    ),
    "EnergyCosts": _stable(
        "EnergyCosts",
        "tensor_j_per_flop vector_j_per_flop sram_j_per_byte hbm_j_per_byte link_j_per_byte idle_w still_frac",
        later={"vector_memory_j_per_byte": 0.0},
    ),
    "Die": _stable(
        "Die",
        "node_m num_dies num_io_dies io_node_m register_bytes num_schedulers num_fp64_lanes has_dot_products "
        "buffered_units spare_core_frac spare_sram_frac num_hbm_stacks num_spare_hbm_phys hbm_generation "
        "num_link_lanes num_pcie_lanes area_model",
    ),
    "Measured": _stable("Measured", "source ops"),
    "MeasuredOp": _stable(
        "MeasuredOp",
        "kind phase dtype extents time_s num_runs num_kernels work_frac stride distinct_frac name stream",
    ),
    "Block": _stable(
        "Block",
        "name ops repeat is_layer is_input_data "
        "boundary_activation_elements=carried_elements boundary_activation_split=carried_split stops_early",
    ),
    "Precision": _stable(
        "Precision",
        "optimizer compute weights gradients moments loss has_master_weights has_momentum "
        "has_persistent_gradients=are_gradients_standing recipe=has_current_scales "
        "has_unfused_accumulation=adds_apart has_autocast_weights=casts_at_use has_compute_gradients",
        values={"recipe": {"": False, "delayed": False, "nvfp4": False, "current": True}},
    ),
    "Limits": _stable("Limits", "area_mm2 power_w"),
    "Design": _stable("Design", "num_tensor num_rows num_cols num_vector num_lanes"),
    "Budget": _stable("Budget", "area_mm2 power_w total_area_mm2 total_power_w total_usd"),
    "Plan": _stable(
        "Plan",
        "tensor_parallel sequence_parallel context_parallel context_comm_type=context_exchange pipeline_parallel "
        "interleave schedule data_parallel expert_parallel expert_tensor_parallel dispatcher=sends_once "
        "zero_stage microbatch recompute recompute_layers layers_per_stage stage_pools=stage_parts offload_optimizer "
        "offload_activations_frac framework axis_order overlap",
        values={
            "recompute": _POLICIES,
            "framework": {"megatron-lm": "megatron"},
            "dispatcher": {"all-to-all": False, "deepep": True},
        },
    ),
    "Overlap": _stable("Overlap", "data tensor context expert pipeline host routing"),
    "PlanSpace": _stable(
        "PlanSpace",
        "tensor_parallel sequence_parallel context_parallel context_comm_type=context_exchange pipeline_parallel "
        "interleave data_parallel expert_parallel zero_stage microbatch recompute schedule axis_order overlap "
        "offload_optimizer offload_activations_frac",
        values={"recompute": _POLICIES},
    ),
    "CasePlan": _stable("CasePlan", "plan loss step_s energy_j low"),
    "RefinedCase": _stable("RefinedCase", "plan loss step_s energy_j low"),
    "Captured": _stable(
        "Captured",
        "name tool stretches limits num_kv_heads batch seq is_any_length num_steps notes",
    ),
    "Stretch": _stable("Stretch", "name parts input_rows input_cols carried repeat is_layer is_input_data"),
    "BlockOperator": _stable(
        "Part",
        "kind name inputs extents operator weight weight_axes bias is_tied output_frac shared_frac stride "
        "num_heads num_kv_heads is_causal has_dropout score_kinds num_copies is_core is_whole",
        later={"frozen": 0, "frozen_bias": 0, "window": 0},
    ),
    "Size": _stable("Size", "count num_batch num_seq per"),
    "Limit": _stable("Limit", "axis label size"),
}
