"""Layers and recompute by stage of one base plan: what its stages can be, and the best of these."""
