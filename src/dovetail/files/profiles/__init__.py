"""Profiles of PyTorch and Chakra: events of a trace into operators of ours with the seconds that each took."""
