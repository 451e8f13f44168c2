"""Fuzzing: every file that a command reads, broken in every way we can think of, and what the command makes of it.

`python -m benchmarks.fuzz` runs it; `inputs/` has a file for each kind of input, with the valid ones to begin from.
"""
