"""Operators of a graph on the tensor and vector cores of a chip: fast and exact schedules, bounds, peaks, a check."""
