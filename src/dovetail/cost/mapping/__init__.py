"""Mapping of matrix products onto systolic arrays: dataflow, tiles per level, traffic, cycles, time, energy."""
