"""The price of each operator that eager PyTorch dispatches: kernels that it launches on a GPU, one by one."""
