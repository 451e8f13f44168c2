"""Execution traces: what each rank recorded, run on a network by either engine."""
