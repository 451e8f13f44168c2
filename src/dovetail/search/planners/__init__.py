"""Planners: exact programs that cut a model into stages."""
