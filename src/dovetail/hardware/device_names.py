"""What drivers call the chips of the catalogue: the names in a profiler's trace."""

from __future__ import annotations

# Product names as nvidia-smi and rocm-smi print them, and as torch.cuda.get_device_name returns them.
DEVICE_NAMES = {
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA A100-SXM4-80GB": "a100-80gb-sxm",
    "NVIDIA A100-SXM4-40GB": "a100-40gb-sxm",
    "A100-SXM4-40GB": "a100-40gb-sxm",
    "Tesla V100-SXM2-32GB": "v100-32gb-sxm",
    "Tesla V100-SXM2-16GB": "v100-16gb-sxm",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "AMD Instinct MI300X": "mi300x",
}


def chip_of_device(device: str) -> str:
    """The catalogue's name of a chip that a driver calls `device`; empty where it is not known."""
    return DEVICE_NAMES.get(device, "")
