"""Break the physics one formula at a time, in a copy of the project, and see that tests notice.

`python -m benchmarks.mutations` prints every mutant and whether it was caught; `--only TEXT` tries those whose file or
formula holds it, and records nothing. A mutant that survives is a hole in the tests; a mutant that no longer applies is
a formula that moved, and is an error here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# what would notice broken physics, quickest first; golden files and recorded outputs would too, but prove less
QUICK = (
    "tests/unit",
    "tests/validation",
    "tests/property/test_sharding_laws.py",
    "tests/property/test_time_laws.py",
    "tests/property/test_routing_laws.py",
    "tests/property/test_pipeline_laws.py",
    "tests/property/test_goodput_laws.py",
    "tests/property/test_bisection_laws.py",
    "tests/property/test_contention_laws.py",
    "tests/property/test_memory_laws.py",
    "tests/property/test_many_plans_laws.py",
    "tests/property/test_refine_laws.py",
    "tests/property/test_planner_laws.py",
    "tests/property/test_cost_laws.py",
    "tests/property/test_silicon_laws.py",
    "tests/conformance/test_transformers.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One formula made wrong: `was` stands exactly once in `file` and becomes `becomes`."""

    file: str
    was: str
    becomes: str


MUTANTS = tuple(
    Mutant(file=file, was=was, becomes=becomes)
    for file, was, becomes in (
        ("workload/graph.py", "products = 2.0 * b * m * n * k", "products = 1.0 * b * m * n * k"),
        ("workload/graph.py", "widths = np.where(backward, (2 + again) * k + 2 * v, k + v)", "widths = k + v"),
        ("workload/graph.py", "writes = b * m * n * c_frac * size_bytes", "writes = 0.0 * b * m * n"),
        ("workload/training.py", '"extents": (b, k, n, m, v)', '"extents": (b, m, n, k, v)'),
        ("workload/training.py", "side_bytes_per_element=precision.update_bytes", "side_bytes_per_element=0.0"),
        ("workload/optimizer.py", "+ 2 * self.optimizer_bytes", "+ self.optimizer_bytes"),
        ("workload/rows.py", "rows[tensor].need |= whose", "rows[tensor].need = whose"),
        ("workload/experts.py", "rows[0] * experts.num_chosen", "rows[0]"),
        ("plan/cuts.py", "Axis.CONTEXT: cp,", "Axis.CONTEXT: np.ones_like(cp),"),
        ("plan/cuts.py", "num_parts = graph.batch // plans.microbatch", "num_parts = plans.data_parallel"),
        ("plan/cuts.py", "Axis.HEADS: np.where(is_dealt, cp, 1)", "Axis.HEADS: np.ones_like(cp)"),
        ("plan/cuts.py", "Axis.HOPS: np.where(is_ring, cp, 1)", "Axis.HOPS: np.ones_like(cp)"),
        ("plan/cuts.py", "share = loads[:, None] / divisors", "share = 1.0 / divisors"),
        ("plan/shard.py", "np.where(is_routed, cut.mean_frac, 1.0) * ops.flop", "1.0 * ops.flop"),
        ("plan/stage_elements.py", "for is_layer in are_layers) > 1", "for is_layer in are_layers) > 2"),
        ("plan/check.py", "if count > num_layers:", "if count > num_layers + 1:"),
        ("plan/block_memory.py", "np.where(hops > 1, 4,", "np.where(hops > 1, 2,"),
        (
            "schedule/context_sends.py",
            "share = np.where(is_ring, 1.0 - 1.0 / senders",
            "share = np.where(is_ring, 1.0 - 0.0 / senders",
        ),
        ("schedule/context_sends.py", "(times[rows] - 1) * merged", "0 * merged"),
        (
            "schedule/context_sends.py",
            "np.where(is_last, 1, senders.num_context_ranks[:, None] - 1)",
            "senders.num_context_ranks[:, None] - 1",
        ),
        ("schedule/context_sends.py", "is_awaited=is_last,", "is_awaited=~is_last,"),
        (
            "schedule/send_table.py",
            "whole_bytes[:, _are_home(ops, rows)] *= senders.loads[:, None]",
            "whole_bytes[:, _are_home(ops, rows)] *= 1.0",
        ),
        (
            "workload/routing.py",
            "came = np.minimum(self.expert_imbalance, num_devices)",
            "came = self.expert_imbalance + 0.0 * num_devices",
        ),
        ("plan/shard.py", "np.add.at(counts[index], stages,", "np.add.at(counts[index], 0 * stages,"),
        (
            "plan/block_memory.py",
            "in_loss = _loss_buffers_bytes(rows, split_copies)[:, is_loss].max(axis=1)",
            "in_loss = 0.0 * split_copies",
        ),
        ("plan/block_memory.py", '_kept_bytes(rows, ("none",)) - kept + buffers', "0.0 * kept + buffers"),
        ("plan/parameter_memory.py", "share = plain / np.where(is_sharded, chosen.data_ranks, 1)", "share = plain"),
        (
            "plan/block_memory.py",
            "rows.output_bytes @ outputs + rows.beside_bytes @ beside",
            "rows.beside_bytes @ beside",
        ),
        (
            "plan/exchange.py",
            '"gather": Meaning(axis="tp", group="tensor", unsharded="", sharded="all-gather")',
            '"gather": Meaning(axis="tp", group="tensor", unsharded="", sharded="")',
        ),
        ("plan/exchange.py", "np.where(is_part, num_context_ranks, 1)", "np.where(is_part, 1, 1)"),
        ("plan/placement.py", "stride=dimension.num_devices // free[index]", "stride=1"),
        (
            "cost/products.py",
            "np.ceil(rows / tile_rows) * np.ceil(cols / tile_cols)",
            "rows / tile_rows * np.ceil(cols / tile_cols)",
        ),
        ("cost/products.py", "num_groups=np.ceil(streamed / chips.num_steps)", "num_groups=streamed / chips.num_steps"),
        ("cost/products.py", "waves = np.ceil(pieces / chips.num_units)", "waves = pieces / chips.num_units"),
        ("cost/products.py", "np.minimum(pieces, chips.num_units)", "1.0 * pieces"),
        ("cost/products.py", "time_s = np.where(groups >= MIN_STEPS, time_s, np.inf)", "time_s = 1.0 * time_s"),
        ("cost/products.py", 'time_s + chips.calibration["split_s"] + split * partial_s', "time_s + split * partial_s"),
        ("cost/products.py", "partial_bytes = 2.0 * PARTIAL_BYTES", "partial_bytes = PARTIAL_BYTES"),
        ("cost/products.py", "return products.k, products.n, products.m", "return products.n, products.k, products.m"),
        ("cost/products.py", "else 2 * tile_rows) + tile_cols - 2", "else tile_rows) + tile_cols - 2"),
        ("cost/products.py", 'np.maximum(math_s, calibration["step_s"])', 'math_s + calibration["step_s"]'),
        ("cost/products.py", 'products.element_bytes / calibration["sram_reuse"]', "products.element_bytes"),
        (
            "cost/products.py",
            "tiled.num_tiles * tiled.tile_bytes * tiled.streamed",
            "tiled.num_tiles * tiled.tile_bytes",
        ),
        (
            "cost/attention.py",
            "np.hypot(product_s, _score_s(shape, chips))",
            "(product_s + _score_s(shape, chips))",
        ),
        (
            "cost/attention.py",
            "(shape.keys, shape.queries) if shape.is_backward",
            "(shape.queries, shape.keys) if shape.is_backward",
        ),
        ("cost/attention.py", "(1 - frac) * TILE + FILL_POSITIONS", "FILL_POSITIONS"),
        ("cost/attention.py", "WIDTH_STEP * np.ceil(shape.key_width / WIDTH_STEP)", "shape.key_width"),
        ("cost/attention.py", "(np.ceil(waves) - waves)", "0.0"),
        ("cost/attention.py", "3 * key_width + 2 * value_width", "2 * key_width + 2 * value_width"),
        ("cost/attention.py", "1 - (per_head / chips.num_units) ** 2", "1 - per_head / chips.num_units"),
        ("cost/attention.py", "PASS_BYTES * queries + summed", "PASS_BYTES * queries"),
        ("cost/attention.py", "value_width) / 128) ** WIDE_POWER", "value_width) / 128)"),
        ("cost/vector.py", "chips.vector_flop_per_s / 2 * calibration", "chips.vector_flop_per_s * calibration"),
        ("cost/vector.py", "busy_s = np.maximum(hbm_s, lanes_s)", "busy_s = hbm_s + lanes_s"),
        (
            "cost/vector.py",
            "np.maximum(busy_s[mask], beside_s) + after_s",
            "np.maximum(busy_s[mask], beside_s + after_s)",
        ),
        ("cost/vector.py", 'whole * calibration["stream_frac"]', "whole"),
        ("cost/vector.py", "np.maximum(1 - chips.sram_bytes / in_flight, 0.0)", "0.0 * in_flight"),
        ("cost/vector.py", "(kernels.pool - 1) * kernels.elements", "kernels.pool * kernels.elements"),
        ("cost/vector.py", "kernels.num_sweeps * (1 + is_again)", "kernels.num_sweeps"),
        ("cost/vector.py", "cols // wide + np.ceil(cols % wide / BLOCK_THREADS)", "np.ceil(cols / wide)"),
        ("cost/vector.py", "kernels.rows <= MANY_ROWS", "kernels.rows < MANY_ROWS"),
        ("cost/vector.py", "np.maximum(blocks / at_once, 1.0)", "blocks / at_once"),
        ("cost/vector.py", "num_streams >= 2 or", "num_streams >= 1 or"),
        ("cost/vector.py", "operations = blocks * kernels.rows * 32", "operations = blocks * kernels.rows"),
        ("cost/kernels.py", "_one(1, 1, side_bytes=1, lane_slots=54)", "_one(1, 1, lane_slots=54)"),
        (
            "cost/kernels.py",
            "kernels=(Kernel(reads=2), Kernel(reads=2)), num_gradients=1",
            "kernels=(Kernel(reads=2),), num_gradients=1",
        ),
        ("cost/kernels.py", "return fused or BACKWARD.get(name)", "return BACKWARD.get(name)"),
        ("cost/kernels.py", "access=Access.NORM, num_sweeps=2)", "access=Access.NORM, num_sweeps=1)"),
        (
            "cost/kernels.py",
            "Launches(kernels=_FUSED_NORM_BACKWARD, num_gradients=3)",
            "Launches(kernels=_FUSED_NORM_BACKWARD, num_gradients=1)",
        ),
        (
            "cost/families/products.py",
            "num_steps = np.where(is_stepwise, rows.b, 1.0)",
            "num_steps = np.ones_like(rows.b)",
        ),
        ("cost/families/products.py", "rows.b * rows.k, rows.k)", "rows.k, rows.k)"),
        ("cost/families/products.py", "np.where(is_apart, rows.b, num_steps)", "num_steps"),
        ("cost/families/products.py", "np.minimum(rows.in_bytes, chips.staging_bytes)", "0.0 * rows.in_bytes"),
        ("cost/families/products.py", "shown * rows.out_bytes", "0.0 * shown"),
        ("cost/families/products.py", "np.maximum(serial_bytes, after_bytes)", "(serial_bytes + after_bytes)"),
        ("cost/families/products.py", "/ held - least, 0.0)", "/ held, 0.0)"),
        ("cost/families/products.py", "(rows.b - 1) * weight_bytes", "rows.b * weight_bytes"),
        ("cost/families/products.py", "chips.num_units * chips.core_buffer_bytes", "chips.core_buffer_bytes"),
        ("cost/families/parts.py", "np.sqrt(tensor_s * tensor_s + hbm_s * hbm_s)", "np.maximum(tensor_s, hbm_s)"),
        ("cost/families/parts.py", "** (1 / (1 + VOLTAGE_POWER)) - 1", "** (1 / VOLTAGE_POWER) - 1"),
        ("cost/families/parts.py", "slower = 1 + over * share", "slower = 1 + over"),
        ("cost/families/parts.py", "np.where(gradients > 0, made_s", "np.where(gradients >= 0, made_s"),
        (
            "cost/families/parts.py",
            "is_node = (rows.phase != Phase.WEIGHT_GRAD)",
            "is_node = (rows.phase != Phase.FORWARD)",
        ),
        ("cost/families/parts.py", "** DTYPE_ENERGY_POWER", "** 0"),
        ("cost/families/convolution.py", "1.0 if is_forward else rows.stride**2", "1.0"),
        (
            "cost/families/convolution.py",
            "np.minimum(outputs, channels) < CHANNEL_STEP",
            "np.minimum(rows.m, rows.n) < CHANNEL_STEP",
        ),
        ("cost/families/convolution.py", "inputs = pixels * rows.stride**2", "inputs = pixels"),
        (
            "cost/families/convolution.py",
            "(rows.v == 1) & (rows.stride == 1) & (rows.b == 1)",
            "(rows.v == 1) & (rows.b == 1)",
        ),
        ("cost/families/convolution.py", "np.where(num_splits > 1, SPLIT_LAUNCHES, 0.0)", "0.0 * num_splits"),
        ("cost/families/convolution.py", "tiles * split <= MAX_WAVES_OF_SPLIT * chips.num_units", "tiles * split >= 0"),
        ("cost/families/convolution.py", "np.maximum(math_s, clocks / chips.clock_hz)", "math_s + 0.0 * clocks"),
        ("cost/families/vector.py", "np.maximum(flop / 2 - ", "np.maximum(0.0 * flop - "),
        ("cost/families/vector.py", "np.where(is_on_table, rows.k[operator], num_rows) * cols", "num_rows * cols"),
        ("cost/families/vector.py", "1 + SORT_KERNELS, 0.0)", "0.0, 0.0)"),
        (
            "cost/families/vector.py",
            "times.lanes_s * times.lanes_s / np.maximum(np.maximum(times.lanes_s, times.hbm_s), TINY_S)",
            "times.lanes_s",
        ),
        ("cost/families/products.py", "waits_s=tensor_s - math_s", "waits_s=0.0 * math_s"),
        (
            "cost/families/attention.py",
            "beside_bytes / bandwidth) + apart_bytes / bandwidth",
            "beside_bytes / bandwidth)",
        ),
        ("cost/families/attention.py", ' * chips.calibration["stream_frac"]', ""),
        (
            "cost/families/__init__.py",
            'parts.num_kernels * calibration["launch_s"]',
            '0.0 * parts.num_kernels + calibration["launch_s"]',
        ),
        ("cost/families/__init__.py", "np.maximum(compute_s, parts.floor_s)", "compute_s + parts.floor_s"),
        (
            "cost/power.py",
            "saved_j = cost.core_j * (1 - clock_frac**VOLTAGE_POWER)",
            "saved_j = cost.core_j * (1 - clock_frac)",
        ),
        ("cost/power.py", "cost.compute_s - cost.clocked_s + clocked_s", "cost.compute_s / clock_frac"),
        ("cost/power.py", "return chip.energy.idle_w + np.where(is_work", "return np.where(is_work"),
        (
            "cost/power.py",
            "np.maximum(at_clock(self.cost, clock_frac).compute_s, self.cost.host_s)",
            "at_clock(self.cost, clock_frac).compute_s",
        ),
        ("cost/columns.py", "chip.vector.num_units * chip.vector.num_lanes", "chip.vector.num_lanes"),
        (
            "cost/columns.py",
            "len(tiling.tiles), tiling.stationary, tiling.fill",
            'len(tiling.tiles), tiling.stationary, ""',
        ),
        ("cost/columns.py", "value[..., rows]", "value[..., : len(value[..., rows])]"),
        ("cost/systolic.py", "rounds * stream + edge - 1", "rounds * (stream + edge) - 1"),
        ("cost/systolic.py", "np.ceil(tiles / num_arrays)", "tiles / num_arrays"),
        ("cost/node.py", "cell / _REFERENCE[1]", "pitch / _REFERENCE[0]"),
        ("cost/inventory.py", "tensor.num_rows * tensor.num_cols * built", "tensor.num_rows * tensor.num_cols"),
        ("cost/area.py", "MULTIPLIER_FRAC * parts.multiplier_ratio", "MULTIPLIER_FRAC"),
        ("cost/area.py", "fitted.other_frac / (1 - fitted.other_frac)", "fitted.other_frac"),
        ("cost/area.py", "np.sqrt(wires_mm**2 + 4 * named_frac * beside_mm2)", "np.sqrt(4 * named_frac * beside_mm2)"),
        ("cost/area.py", "edge.sram_ratio * SRAM_MM2_PER_BYTE", "core.sram_ratio * SRAM_MM2_PER_BYTE"),
        (
            "cost/phaze_area.py",
            "np.maximum(1.0, num_elements / ELEMENTS_PER_KIBI)",
            "np.maximum(2.0, num_elements / ELEMENTS_PER_KIBI)",
        ),
        ("cost/tdp.py", "LINK_J_PER_BYTE * 2 * link_bytes_per_s", "LINK_J_PER_BYTE * link_bytes_per_s"),
        ("cost/tdp.py", "2 * OPERAND_BYTES / np.sqrt(num_macs_per_unit)", "2 * OPERAND_BYTES / num_macs_per_unit"),
        ("cost/tdp.py", "edge_ratio * SRAM_J_PER_BYTE", "energy_ratio * SRAM_J_PER_BYTE"),
        ("cost/price.py", " - np.pi * WAFER_MM / np.sqrt(2 * die)", ""),
        ("cost/price.py", "CLUSTERING) ** -CLUSTERING", "CLUSTERING) ** -1"),
        ("cost/price.py", "+ assembly_usd) / PACKAGE_YIELD_FRAC", "+ assembly_usd)"),
        ("cost/price.py", "np.where(parts.has_spare_cores, main_core_mm2, 0.0)", "0.0 * main_core_mm2"),
        (
            "schedule/work.py",
            "np.maximum(0.0, self.cost.host_s - self.cost.compute_s - sum(self.waiting_s))",
            "0.0 * self.cost.host_s",
        ),
        (
            "schedule/block_table.py",
            "np.any(again & ~ops.is_fused, axis=1) * calibration.host_rerun_s",
            "0.0 * calibration.host_rerun_s",
        ),
        ("schedule/stage.py", "way.cost.host_s + call_s", "way.cost.host_s"),
        (
            "cost/power.py",
            "return energy_j - core_j * (1 - clock_frac**VOLTAGE_POWER)",
            "return energy_j - core_j * (1 - clock_frac)",
        ),
        (
            "schedule/work.py",
            "passing_s = left_s = np.maximum(compute_s, self.queued_s - behind_s)",
            "passing_s = left_s = compute_s",
        ),
        ("schedule/work.py", "recompute_s=longer * self.recompute_s", "recompute_s=self.recompute_s"),
        ("network/alphabeta.py", "moved_bytes = payload_bytes * (n - 1) / n", "moved_bytes = payload_bytes / n"),
        ("network/alphabeta.py", "return bandwidth / num_ports / span.stride", "return bandwidth"),
        ("network/alphabeta.py", "return bandwidth / dimension.oversubscription", "return bandwidth"),
        (
            "network/collectives/all_gather.py",
            "held_bytes = held_bytes / span.num_ranks",
            "held_bytes = held_bytes / 1",
        ),
        (
            "schedule/pipelines/one_f_one_b.py",
            "rounds = num_microbatches - 1 - len(hops) + low",
            "rounds = num_microbatches - len(hops) + low",
        ),
        (
            "schedule/pipelines/one_f_one_b.py",
            "np.minimum(shape.num_microbatches, shape.num_stages - stage).astype(float)",
            "np.asarray(shape.num_microbatches, dtype=float)",
        ),
        ("schedule/pipeline_skeleton.py", "(took_s / bones.chunks_per_device)", "(1.0 * took_s)"),
        ("schedule/work.py", "Comm(exposed_s=w + b - h, hidden_s=h)", "Comm(exposed_s=w, hidden_s=h)"),
        (
            "schedule/assembly.py",
            "self.tied_s + self.synced_s + self.landing_s + self.update_s",
            "self.tied_s + self.landing_s + self.update_s",
        ),
        (
            "schedule/pipelines/gpipe.py",
            "times.transfer @ (2 * hops_before(",
            "times.transfer @ (4 * hops_before(",
        ),
        ("schedule/send_table.py", "np.stack([r, g, g], axis=1)", "np.stack([r, g, 0 * g], axis=1)"),
        (
            "schedule/sync.py",
            "dense = (owned.gradients - owned.sparse) * precision.reduce_bytes",
            "dense = (owned.gradients - owned.sparse) * 2.0",
        ),
        ("schedule/stage_energy.py", "energy.idle_w * part.cluster.num_devices", "energy.idle_w"),
        (
            "schedule/stage_energy.py",
            "num_passes * pass_j + once_j + sent * link_j",
            "num_passes * pass_j + sent * link_j",
        ),
        (
            "schedule/sync.py",
            "weights, (zero_stage == 1) | (zero_stage == 2), gather_s",
            "weights, zero_stage == 1, gather_s",
        ),
        ("workload/graph.py", "b * n * (k + v) * b_frac", "b * n * (k + v)"),
        ("plan/exchange.py", 'unsharded="all-reduce", sharded="all-reduce"', 'unsharded="", sharded=""'),
        ("evaluate.py", "gain_frac = step_s / nudged_s - 1.0", "gain_frac = nudged_s / step_s - 1.0"),
        ("units.py", '"b": 1 / BITS_PER_BYTE', '"b": 1.0'),
        (
            "plan/cuts.py",
            "return -(-elements // divisors(split, degrees))",
            "return elements // divisors(split, degrees)",
        ),
        ("plan/cuts.py", "tp * cp * num_parts // experts", "num_parts // experts"),
        (
            "plan/parameter_memory.py",
            "experts / np.where(is_sharded, chosen.expert_ranks, 1)",
            "experts / np.where(is_sharded, chosen.data_ranks, 1)",
        ),
        (
            "plan/parameter_memory.py",
            "np.minimum(root + NUM_PREFETCHED_BLOCKS * layer, whole)",
            "np.minimum(root + layer, whole)",
        ),
        ("plan/parameter_memory.py", "MASTER_BYTES, 1) * np.where(is_twice, 2.0, 1.0)", "MASTER_BYTES, 1)"),
        ("plan/stage_elements.py", "np.where(block_plain > 0, block.tied, 0.0) if has_owner else 0.0", "0.0"),
        (
            "plan/memory.py",
            "states.gradients_bytes if precision.are_gradients_standing else 0.0",
            "states.gradients_bytes",
        ),
        ("plan/memory.py", "activations_bytes=kept - gone", "activations_bytes=kept"),
        ("plan/memory.py", "states.gradients_bytes - unborn_bytes(load, precision)", "states.gradients_bytes"),
        ("plan/memory.py", "states, buffers_bytes=widened_bytes", "states, buffers_bytes=0.0"),
        ("plan/memory.py", "(1.0 if piece.memory.is_loss else load.in_flight)", "load.in_flight"),
        ("plan/memory.py", "is_in_loss = in_loss + loss >= in_layers", "is_in_loss = in_loss + loss < in_layers"),
        ("schedule/pipelines/one_f_one_b.py", "[np.maximum.accumulate(way, axis=0)[run] for way", "[way[run] for way"),
        (
            "schedule/pipelines/one_f_one_b.py",
            "np.concatenate([forward_s + backward_s, 2 * transfer_s])",
            "np.concatenate([forward_s + backward_s, transfer_s])",
        ),
        ("schedule/pipelines/gpipe.py", "more * way.max(axis=-1)", "more * way.mean(axis=-1)"),
        (
            "schedule/pipelines/gpipe.py",
            "return np.asarray(shape.num_microbatches, dtype=float)",
            "return np.asarray(shape.num_stages, dtype=float)",
        ),
        (
            "schedule/pipelines/interleaved.py",
            "(interleave - 1) * shape.num_stages + 1",
            "(interleave - 1) * shape.num_stages",
        ),
        ("schedule/pipelines/dualpipe.py", "(shape.num_stages + 1) / 2", "shape.num_stages + 1.0"),
        (
            "schedule/pipelines/zero_bubble_h1.py",
            "np.minimum(shape.num_microbatches, shape.num_stages).astype(float)",
            "1.0 * np.asarray(shape.num_microbatches)",
        ),
        ("schedule/pipelines/zero_bubble_h1.py", "return in_flight(stage, shape) - kept", "return kept"),
        ("schedule/pipelines/zero_bubble_v.py", "float(shape.num_stages))", "2.0 * shape.num_stages)"),
        (
            "schedule/pipelines/__init__.py",
            "more_s = rounds * (kinds_s[0] + kinds_s[1])",
            "more_s = rounds * (kinds_s[0] + kinds_s[2])",
        ),
        ("schedule/pipelines/__init__.py", "- few) / pipelines[name].num_copies", "- few)"),
        ("schedule/assembly.py", "share = same.num_copies * same.interleave", "share = same.num_copies"),
        (
            "schedule/assembly.py",
            "self.num_passes = self.num_microbatches / same.num_copies",
            "self.num_passes = 1.0 * self.num_microbatches",
        ),
        ("schedule/transfers.py", "carried_bytes / pieces", "carried_bytes"),
        ("schedule/assembly.py", "[(run.num_blocks - 1) / run.num_blocks for run", "[1.0 for run"),
        ("schedule/assembly.py", "rounds * (same.interleave - 1) / same.interleave", "rounds"),
        ("schedule/sync.py", "np.asarray((1 - held_frac) * behind_s)", "np.asarray(behind_s)"),
        ("schedule/sync.py", "np.minimum(reduce_s, share * room_s[1])", "np.minimum(reduce_s, share * room_s[0])"),
        (
            "schedule/sync.py",
            "owned.sparse * precision.reduce_bytes * ranks[:, None]",
            "owned.sparse * precision.reduce_bytes",
        ),
        ("schedule/sync.py", "has_owner=counts_tied and owner", "has_owner=False"),
        ("schedule/work.py", "held_frac * np.maximum(0.0, hidden_s - host_wait_s)", "held_frac * hidden_s"),
        ("schedule/work.py", "(1 - frac * behind) * hidden", "1.0 * hidden"),
        ("schedule/work.py", "adding if axis in _ADDING else moving", "moving"),
        ("schedule/work.py", "_slowed_s(self.core, clock_frac) + host_wait_s", "host_wait_s"),
        ("schedule/work.py", "return self.backward.time_s * share", "return self.backward.weight_s"),
        ("schedule/send_table.py", "np.where(senders.sends_once[chosen][:, None], once_s, took_s)", "took_s"),
        (
            "schedule/send_table.py",
            "np.arange(1, most.max() + 1))[most - 1]",
            "np.arange(1, most.max() + 1))[0 * most]",
        ),
        ("schedule/send_table.py", "is_sent & (senders.zero_stage >= 2)", "is_sent & (senders.zero_stage == 2)"),
        ("schedule/send_table.py", "time_s + calibration.exchange_s, 0.0)", "time_s, 0.0)"),
        ("network/collectives/all_to_all.py", "num_places *= span.num_ranks", "num_places = span.num_ranks"),
        ("network/collectives/all_to_all.py", "for span in reversed(group)", "for span in group"),
        ("schedule/stage.py", "(num_devices - 0.375) / (num_devices + 0.25)", "0.625 / (num_devices + 0.25)"),
        (
            "schedule/stage.py",
            "clock_frac = behind_frac * limit_frac",
            "clock_frac = 1.0 * limit_frac",
        ),
        ("schedule/stage.py", "at_clock(work.cost, limit_frac)", "at_clock(work.cost, clock_frac)"),
        ("schedule/goodput.py", "max(work_s, self.write_s) + self.stall_s", "max(work_s + self.stall_s, self.write_s)"),
        ("schedule/goodput.py", "math.exp(-recovery.restart_s / mtbf_s)", "1 / (1 + recovery.restart_s / mtbf_s)"),
        ("schedule/goodput.py", "-(first_s + recovery.write_s) / mtbf_s", "-first_s / mtbf_s"),
        ("schedule/goodput.py", "num_kept * cycle_s - first_frac * (cycle_s - first_s)", "num_kept * cycle_s"),
        ("schedule/goodput.py", "math.expm1(-middle - a) < 0", "math.expm1(-middle) + a < 0"),
        ("schedule/goodput.py", "(1.0 - self.slow_frac) / self.step_s", "1.0 / self.step_s"),
        ("schedule/goodput.py", "-math.expm1(-detect_s / onset_s)", "detect_s / onset_s"),
        ("schedule/long_run.py", "restart_s=said.restart_s + write_s", "restart_s=said.restart_s"),
        ("schedule/straggler.py", "(stage in chosen)", "(stage not in chosen)"),
        ("plan/checkpoint.py", "experts / chosen.expert_ranks", "experts / chosen.data_ranks"),
        ("hardware/reliability.py", "self.mtbf_s * self.num_devices / num_devices", "self.mtbf_s / num_devices"),
        ("schedule/contention.py", "full * ours / (ours + theirs)", "full - held.hbm_bytes_per_s"),
        (
            "schedule/contention.py",
            "then.time_s(num_units, num_left, bytes_s)",
            "then.time_s(num_left, num_left, bytes_s)",
        ),
        (
            "schedule/contention.py",
            "left = num_units - held.num_units * _lost_frac(ops, held)",
            "left = num_units - held.num_units * np.ones(len(ops))",
        ),
        ("schedule/contention.py", "stretch * (1 + waits)", "stretch"),
        (
            "search/planners/balance.py",
            "np.minimum(cut.num_units, each_s.shape[1]) - 1",
            "np.minimum(cut.num_units, each_s.shape[1] - 1)",
        ),
        ("search/pipeline_lows.py", "2 * sum_s + rounds * pace_s", "2 * sum_s + (rounds + 2) * pace_s"),
        ("search/pipeline_lows.py", "sum_s / (v * -np.expm1(", "sum_s / (-np.expm1("),
        ("search/bounds.py", "group.hidden_frac * np.minimum(group.exchanged_s, room_s)", "0.0 * room_s"),
        (
            "search/bounds.py",
            "2 * same.num_copies * same.interleave * transfer_s",
            "4 * same.num_copies * same.interleave * transfer_s",
        ),
        ("search/stage_paces.py", "kept_bytes).min(axis=1)\n        lines", "kept_bytes).max(axis=1)\n        lines"),
        ("search/stage_cuts.py", "np.minimum.accumulate(self.time_s[:, ::-1], axis=1)[:, ::-1]", "self.time_s"),
        ("search/mix_cuts.py", "(after >= behind[stage]) & ((after == 0) | later[stage])", "after >= behind[stage]"),
        (
            "search/mixes.py",
            "may_hold[homes[begin : end + 1], kind] = True",
            "may_hold[homes[first : end + 1], kind] = True",
        ),
        ("search/mix_paces.py", "- line.price_s[:, None] * room_bytes", "+ line.price_s[:, None] * room_bytes"),
        ("search/memory_lows.py", "fits &= most >= wanted", "fits &= most >= 2 * wanted"),
        ("search/even_plans.py", "< self._worst_s(found.best)]", "< 0.9 * self._worst_s(found.best)]"),
        ("search/stage_options.py", "few[open_[~fits]] = middle[~fits] + 1", "few[open_[~fits]] = many[open_[~fits]]"),
        (
            "search/refine.py",
            "(best_s - once_s) / stages.num_passes - stages.paid_s",
            "(best_s - once_s) / stages.num_passes - 2 * stages.paid_s",
        ),
        ("network/events/bounds.py", "max(one_s, float((2 * (num_ranks - 1)", "max(one_s, float((1 * (num_ranks - 1)"),
        ("network/events/bounds.py", 'collective != "all-reduce" or in_switch', 'collective != "all-reduce"'),
        (
            "network/events/bisection.py",
            "(is_here.sum(axis=1) * (~is_here).sum(axis=1)).sum()",
            "(is_here.sum(axis=1) ** 2 + 0 * (~is_here).sum(axis=1)).sum()",
        ),
        ("network/events/bisection.py", "max(min(found), np.finfo", "max(max(found), np.finfo"),
        ("network/events/schedules/in_switch.py", "sent_on_bytes = min(up_bytes, down_bytes)", "sent_on_bytes = 0.0"),
        ("network/endpoint/in_switch.py", "link_bytes=max(up, down)", "link_bytes=up + down"),
    )
)


UNCHANGED = Mutant(file="units.py", was="BITS_PER_BYTE = 8.0", becomes="BITS_PER_BYTE = 8.0")


def caught(mutant: Mutant) -> str:
    """The first test that fails on `mutant`, or '' when none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(
            REPOSITORY, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "site")
        )
        target = copy / "src" / "dovetail" / mutant.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutant.was) != 1:
            raise SystemExit(
                f"{mutant.file}: {mutant.was!r} stands {text.count(mutant.was)} times; a mutant needs it once"
            )
        target.write_text(text.replace(mutant.was, mutant.becomes), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in (*_mirror(mutant), *QUICK):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", tests]
            run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return failed[0].split(" - ")[0] if failed else f"{tests}: exit {run.returncode}"
    return ""


def _mirror(mutant: Mutant) -> tuple[str, ...]:
    """The unit tests of the package that the mutant is in: they notice soonest."""
    folder = Path("tests/unit") / mutant.file.partition("/")[0]
    return (str(folder),) if (REPOSITORY / folder).is_dir() else ()


def results(mutants: Sequence[Mutant], num_workers: int = 2) -> Iterator[tuple[Mutant, str]]:
    with ThreadPoolExecutor(num_workers) as pool:
        yield from zip(mutants, pool.map(caught, mutants), strict=True)


def num_survivors(mutants: Sequence[Mutant]) -> int:
    """Tries and prints every mutant; how many no test noticed."""
    assert not caught(UNCHANGED), "tests fail without any mutant: mend them first"
    survivors = 0
    for mutant, by in results(mutants):
        survivors += not by
        print(
            f"{'caught' if by else 'SURVIVED':9} {mutant.file}: {mutant.becomes!r}  {by}", file=sys.stderr, flush=True
        )
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught", file=sys.stderr)
    return survivors


def record(file: Path) -> int:
    """Tries every mutant and writes the count with the commit; the number of survivors."""
    survivors = num_survivors(MUTANTS)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    file.parent.mkdir(parents=True, exist_ok=True)
    outcome = {"caught": len(MUTANTS) - survivors, "mutants": len(MUTANTS), "commit": commit or "no commit"}
    file.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutations", description="break formulas, see tests fail"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose file or formula holds TEXT")
    only = parser.parse_args(arguments).only
    if not only:
        return 1 if record(REPOSITORY / "benchmarks" / "results" / "mutations.json") else 0
    chosen = [mutant for mutant in MUTANTS if only in mutant.file or only in mutant.was]
    if not chosen:
        parser.error(f"no mutant's file or formula holds {only!r}")
    return 1 if num_survivors(chosen) else 0


if __name__ == "__main__":
    raise SystemExit(main())
