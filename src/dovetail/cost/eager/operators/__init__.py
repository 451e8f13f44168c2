"""Dispatched operators by family, each registered with the kernels that PyTorch 2.11 launches for it on a GPU."""
