"""Chunk-level simulation of collectives over links that serve one message after another."""
