"""The device that is measured, by PyTorch's API, and a timer for what runs on it alone."""

from __future__ import annotations

import gc
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.units import MEBI, MILLI

COLD_BYTES = 256 * MEBI  # written before each timed call, so that its operands are not in L2; larger than any
# Of calls before the timed ones, and of those: long enough for the power limit to set the clock of large products, as
# it does in training. A card that rests between rows multiplies some 8 % faster (decision 78).
WARM_S, TIMED_S = 0.025, 0.1
LEAST_TIMED, MOST_TIMED = 10, 200
NVIDIA_SMI = "nvidia-smi"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gpu:
    """One device and the library that runs it. The CPU stands in for it in tests, and is really timed."""

    torch: Any
    device: str = "cuda"
    cold: Any = None  # what is written before each timed call

    @property
    def is_cpu(self) -> bool:
        return self.device == "cpu"

    @property
    def name(self) -> str:
        return platform.processor() or "CPU" if self.is_cpu else str(self.torch.cuda.get_device_name(0))

    @property
    def num_gpus(self) -> int:
        return 0 if self.is_cpu else int(self.torch.cuda.device_count())

    @property
    def is_amd(self) -> bool:
        return not self.is_cpu and bool(getattr(self.torch.version, "hip", None))

    @property
    def capability(self) -> tuple[int, int]:
        """CUDA's compute capability; (0, 0) where there is none."""
        if self.is_cpu or self.is_amd:
            return (0, 0)
        major, minor = self.torch.cuda.get_device_capability(0)
        return int(major), int(minor)

    def dtype(self, name: str) -> Any:
        """PyTorch's dtype by the name that tables have."""
        names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn"}
        return getattr(self.torch, names[name])

    def random(self, *shape: int, dtype: str = "bf16") -> Any:
        """Normal numbers: zeros would draw less power, and run faster than what is trained."""
        return self.torch.randn(*shape, device=self.device, dtype=self.dtype(dtype))

    def indices(self, below: int, *shape: int) -> Any:
        return self.torch.randint(0, below, shape, device=self.device)

    def wait(self) -> None:
        """Returns when all that was queued is done; raises what the device complains of."""
        if not self.is_cpu:
            self.torch.cuda.synchronize()

    def freed(self) -> None:
        """Gives memory that nothing holds back to the device."""
        gc.collect()
        if not self.is_cpu:
            self.torch.cuda.empty_cache()

    def median_s(self, call: Callable[[], Any]) -> float:
        """The median time of `call` from an idle queue with cold caches, after calls that warm it up."""
        call()
        self.wait()
        estimate_s = max(median(self._timed_s(call, 3)) + self._cold_s(), 1e-6)  # style: no call is shorter
        self._timed_s(call, _within(WARM_S / estimate_s, 1, MOST_TIMED))
        return median(self._timed_s(call, _within(TIMED_S / estimate_s, LEAST_TIMED, MOST_TIMED)))

    def _cold_s(self) -> float:
        return 0.0 if self.cold is None else median(self._timed_s(self.cold.zero_, 3))

    def _timed_s(self, call: Callable[[], Any], num_calls: int) -> list[float]:
        if self.is_cpu:
            return [_passed_s(call) for _ in range(num_calls)]
        pairs = []
        for _ in range(num_calls):
            self.cold.zero_()
            first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            call()
            last.record()
            pairs.append((first, last))
        self.wait()
        return [first.elapsed_time(last) * MILLI for first, last in pairs]


def _within(count: float, least: int, most: int) -> int:
    return int(min(max(count, least), most))


def _passed_s(call: Callable[[], Any]) -> float:
    begin_s = time.perf_counter()
    call()
    return time.perf_counter() - begin_s


def found_gpu() -> Gpu:
    """The first GPU that PyTorch sees; raises where there is none, or no PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise InvalidInput("measuring needs PyTorch and a GPU; pip install 'dovetail-codesign[torch]' where one is")
    import torch

    if not torch.cuda.is_available():
        built = "is a build without CUDA and ROCm" if not (torch.version.cuda or torch.version.hip) else "sees no GPU"
        raise InvalidInput(f"measuring needs a GPU, and PyTorch {torch.__version__} {built}")
    cold = torch.empty(int(COLD_BYTES) // 4, dtype=torch.int32, device="cuda")
    return Gpu(torch=torch, cold=cold)


def machine_of(gpu: Gpu) -> dict[str, Any]:
    """What was measured with what, as plain data; what nothing tells is left out."""
    torch = gpu.torch
    facts: dict[str, Any] = {
        "gpu": gpu.name,
        "num_gpus": gpu.num_gpus,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cpu": _processor(),
        "num_cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
    }
    if gpu.is_cpu:
        return facts
    cuda, hip = torch.version.cuda, getattr(torch.version, "hip", None)
    facts |= {"cuda": cuda} if cuda else {"rocm": hip}
    facts["memory_bytes"] = int(torch.cuda.get_device_properties(0).total_memory)
    if hasattr(torch.cuda, "nccl"):
        facts["nccl"] = nccl_version(gpu)
    figures = ("driver_version", "power.limit", "clocks.max.sm", "clocks.max.mem")
    for name, value in zip(("driver", "power_limit_w", "sm_mhz", "memory_mhz"), smi_figures(figures), strict=False):
        facts[name] = value if name == "driver" else float(value)
    return facts


def nccl_version(gpu: Gpu) -> str:
    """Of NCCL, or of RCCL on AMD's GPUs; empty where this build has none."""
    try:
        return ".".join(str(part) for part in gpu.torch.cuda.nccl.version())
    except (AttributeError, RuntimeError):
        return ""


def _processor() -> str:
    """The host's processor, as Linux or Python names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            return next((line.partition(":")[2].strip() for line in stream if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def smi_command(figures: Sequence[str], *more: str) -> list[str]:
    """nvidia-smi's question for figures of the first visible GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return [
        NVIDIA_SMI,
        "-i",
        visible or "0",
        f"--query-gpu={','.join(figures)}",
        "--format=csv,noheader,nounits",
        *more,
    ]


def smi_figures(figures: Sequence[str]) -> list[str]:
    """What nvidia-smi says; nothing where it is not here or does not know."""
    if shutil.which(NVIDIA_SMI) is None:
        return []
    try:
        facts = subprocess.run(smi_command(figures), capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    cells = [cell.strip() for cell in facts.strip().partition("\n")[0].split(",")]
    return cells if len(cells) == len(figures) and not any("[" in cell for cell in cells) else []


def has_module(name: str) -> bool:
    """Whether a library could be imported here."""
    return name in sys.modules or importlib.util.find_spec(name) is not None
