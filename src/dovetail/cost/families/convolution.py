"""Convolutions: implicit products, whose operands are gathered window by window, where the units hold their output.

A window of one pixel and stride 1 is a plain product. Other arrays take a convolution as the product it unrolls to.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.families.products import product_costing
from dovetail.cost.families.rows import Costing, RowCosts, Rows, beside, loop_flop_per_s, tensor_j_per_flop, throttled
from dovetail.cost.op_cost import Setting
from dovetail.workload.graph import FloatArray, Phase

# Fitted on 79 convolutions of ResNet-50, channels last (one H200, cuDNN 9); tiles and times of products as they are.
EXTRA_LAUNCHES = 1.66  # a kernel's start beyond a product's: it clears its output first
SECTOR_BYTES_OF_CLOCK = 36.0  # gathered into one unit
PIECE_CLOCKS = 1.86  # one gather of 8 channels, where there are fewer than 64
TURN_LAUNCHES = 0.57  # a part of a split weight gradient adds to the sum in its turn
SPLIT_LAUNCHES = 2.0  # kernels that clear and reduce the workspace of a split
SHOWN_OUTPUT_FRAC = 0.5  # share of the output's stores that the main loop does not hide
CHANNEL_STEP = 8.0  # channels are padded to it by kernels of their own
FEW_CHANNELS = 64.0
FEW_PIECES = 4.0  # gathers of a column of a weight gradient's step, where channels are few
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MAX_WAVES_OF_SPLIT = 4.0


def convolution_costing(rows: Rows, gathered_bytes: float = SECTOR_BYTES_OF_CLOCK) -> Costing:
    """Rows of one phase, whose units gather so many bytes each a clock."""
    product = product_costing(rows)
    is_plain = (rows.v == 1) & (rows.stride == 1) & (rows.b == 1)

    def parts(chips: ChipColumns, setting: Setting) -> RowCosts:
        unrolled = product(chips, setting)
        if chips.are_arrays or bool(is_plain.all()):
            return unrolled
        implicit = _implicit(rows, unrolled, chips, setting, gathered_bytes)
        names = [field.name for field in fields(RowCosts)]
        return RowCosts(**{n: np.where(is_plain, getattr(unrolled, n), getattr(implicit, n)) for n in names})

    return parts


def _implicit(rows: Rows, base: RowCosts, chips: ChipColumns, setting: Setting, gathered_bytes: float) -> RowCosts:
    unit_s, num_splits = _unit_s(rows, chips, gathered_bytes)
    # a channel a group is no work for tensor units: the lanes take it
    _, outputs, _, channels = _shape(rows)
    is_thin = (rows.b > 1) & (np.minimum(outputs, channels) < CHANNEL_STEP)
    unit_s = np.where(is_thin, rows.flop / chips.vector_flop_per_s, unit_s)
    unit_j = rows.flop * np.where(is_thin, chips.vector_j_per_flop, tensor_j_per_flop(rows, chips))
    if setting is not Setting.STREAM:
        unit_s, unit_j = throttled(unit_s, unit_j, chips)
    bandwidth = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"]
    padded_bytes, shown_bytes = _padded_bytes(rows), SHOWN_OUTPUT_FRAC * rows.out_bytes
    both_s, clocked_s = beside(unit_s, (rows.in_bytes + rows.out_bytes - shown_bytes) / bandwidth)
    hbm_bytes = rows.in_bytes + rows.out_bytes + padded_bytes + np.zeros_like(unit_s)
    more = np.where(padded_bytes > 0, 2.0, 0.0) + np.where(num_splits > 1, SPLIT_LAUNCHES, 0.0)
    return replace(
        base,
        busy_s=both_s + (shown_bytes + padded_bytes) / bandwidth,
        clocked_s=clocked_s,
        num_kernels=1 + EXTRA_LAUNCHES + more,
        hbm_bytes=hbm_bytes,
        core_j=unit_j + hbm_bytes * chips.sram_j_per_byte,
    )


def _shape(rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Output pixels, output channels, window positions and input channels a group, whatever the pass."""
    m, n, k, window = rows.m, rows.n, rows.k, rows.v
    phase = int(rows.phase[0])
    pixels, outputs, unrolled = m, n, k
    if phase == Phase.INPUT_GRAD:
        pixels, unrolled, outputs = m, n, k
    elif phase == Phase.WEIGHT_GRAD:
        unrolled, outputs, pixels = m, n, k
    return pixels, outputs, window, unrolled / window


def _padded_bytes(rows: Rows) -> FloatArray:
    """Moved by the kernels that pad channels to a multiple of eight, or cut the padding of a gradient off."""
    pixels, _, _, channels = _shape(rows)
    whole = CHANNEL_STEP * np.ceil(channels / CHANNEL_STEP)
    inputs = pixels * rows.stride**2
    passes = 2 * whole + channels if int(rows.phase[0]) != Phase.INPUT_GRAD else whole + channels
    is_padded = (whole > channels) & (rows.b == 1)
    return np.where(is_padded, passes * inputs * rows.element_bytes, 0.0)


def _unit_s(rows: Rows, chips: ChipColumns, gathered_bytes: float) -> tuple[FloatArray, FloatArray]:
    """Seconds of the units by the best tile, and in how many parts a weight gradient's pixels were cut."""
    best_s: FloatArray = np.full((), np.inf)
    unit_s: FloatArray = np.zeros(())
    num_splits: FloatArray = np.ones(())
    for tile_rows, tile_cols in zip(chips.tile_rows, chips.tile_cols, strict=True):
        tile_step_s = _tile_step_s(rows, chips, tile_rows, tile_cols, gathered_bytes)
        for split in SPLITS if int(rows.phase[0]) == Phase.WEIGHT_GRAD else (1,):
            time_s = _tiled_s(rows, chips, tile_rows, tile_cols, tile_step_s, split)
            chosen_s = time_s + (SPLIT_LAUNCHES * chips.calibration["launch_s"] if split > 1 else 0.0)
            is_better = chosen_s < best_s
            num_splits = np.where(is_better, split, num_splits)
            best_s, unit_s = np.where(is_better, chosen_s, best_s), np.where(is_better, time_s, unit_s)
    return unit_s, num_splits


def _tile_step_s(
    rows: Rows, chips: ChipColumns, tile_rows: FloatArray, tile_cols: FloatArray, gathered_bytes: float
) -> FloatArray:
    """One group of steps of a tile: its products, or gathering its operand if that is longer."""
    phase, (_, _, _, channels) = int(rows.phase[0]), _padded_shape(rows)
    unit_flop_per_s = loop_flop_per_s(rows, chips) / chips.num_units
    math_s = np.maximum(2 * tile_rows * tile_cols * chips.num_steps / unit_flop_per_s, chips.calibration["tile_step_s"])
    gathered = tile_cols if phase == Phase.WEIGHT_GRAD else tile_rows
    clocks = gathered * chips.num_steps * rows.element_bytes / gathered_bytes
    if phase != Phase.INPUT_GRAD:
        pieces = FEW_PIECES if phase == Phase.WEIGHT_GRAD else chips.num_steps / channels
        clocks = np.where(channels < FEW_CHANNELS, gathered * PIECE_CLOCKS * pieces, clocks)
    return np.asarray(np.maximum(math_s, clocks / chips.clock_hz))


def _tiled_s(
    rows: Rows, chips: ChipColumns, tile_rows: FloatArray, tile_cols: FloatArray, tile_step_s: FloatArray, split: int
) -> FloatArray:
    """Waves of tiles: pixels by channels; in a weight gradient output channels by the window, and pixels stream."""
    phase, calibration = int(rows.phase[0]), chips.calibration
    pixels, outputs, window, channels = _padded_shape(rows)
    if phase == Phase.WEIGHT_GRAD:
        tiles = rows.b * np.ceil(outputs / tile_rows) * np.ceil(window * channels / tile_cols)
        steps = np.ceil(np.ceil(pixels / chips.num_steps) / split)
        turns_s = TURN_LAUNCHES * split * calibration["launch_s"] if split > 1 else 0.0
        time_s = np.ceil(tiles * split / chips.num_units) * (calibration["fill_s"] + steps * tile_step_s) + turns_s
        return np.where((split == 1) | (tiles * split <= MAX_WAVES_OF_SPLIT * chips.num_units), time_s, np.inf)
    is_forward = phase != Phase.INPUT_GRAD
    cols, streamed = (outputs, window * channels) if is_forward else (channels, window * outputs)
    # a gradient's input pixels fall into stride^2 classes, by the part of the window that reaches them; each is filled
    num_fills = 1.0 if is_forward else rows.stride**2
    waves = np.ceil(rows.b * np.ceil(pixels / tile_rows) * np.ceil(cols / tile_cols) / chips.num_units)
    return np.asarray(waves * (num_fills * calibration["fill_s"] + np.ceil(streamed / chips.num_steps) * tile_step_s))


def _padded_shape(rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    pixels, outputs, window, channels = _shape(rows)
    return pixels, outputs, window, CHANNEL_STEP * np.ceil(channels / CHANNEL_STEP)
