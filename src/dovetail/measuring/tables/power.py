"""Power and clock under sustained load: one operator again and again for seconds, as nvidia-smi reads the board."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from statistics import mean, quantiles
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, words
from dovetail.measuring.tables.gemm import product
from dovetail.measuring.torch_gpu import NVIDIA_SMI, smi_command, smi_figures
from dovetail.units import GIGA, MEBI, MILLI, TERA

SECONDS = 2.0
SETTLE_S = 0.5  # before the readings that count: the power limit and the readings themselves take that long
EVERY_S = 0.05
BATCH_S = 0.02  # queued at once
# Watts of the moment; drivers before 530 have those of the last second alone, under another name.
WATTS = ("power.draw.instant", "power.draw")
FIGURES = ("clocks.sm", "temperature.gpu")
Load = tuple[Callable[[], Any], float, float]  # the call, FLOP and bytes of each


def rows(_gpu: Any) -> tuple[Key, ...]:
    products = [("gemm", one) for one in ("1024^3", "8192^3", "128x16384x16384", "16x16384x16384")]
    others = [("copy", "4096MiB"), ("gelu", "16384x8192"), ("attention_fwd", "4x32x2048x128 causal")]
    return tuple(words(*one) for one in [("idle", ""), *products, *others])


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    call, flop, moved_bytes = _load(gpu, *key)
    watts_figure = next((one for one in WATTS if smi_figures((one,))), WATTS[-1])
    query = smi_command((watts_figure, *FIGURES), "-lms", str(round(EVERY_S / MILLI)))
    with subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as reader:
        try:
            _loaded(gpu, call, SETTLE_S)
            begin_s = time.perf_counter()
            num_launches = _loaded(gpu, call, SECONDS)
            passed_s = time.perf_counter() - begin_s
        finally:
            reader.terminate()
        lines, _ = reader.communicate()
    readings = [_reading(line) for line in lines.splitlines()]
    kept = [one for one in readings if one][-max(int(passed_s / EVERY_S), 1) :]
    if len(kept) < 4:  # style: fewer tell no percentile
        raise RuntimeError(f"{NVIDIA_SMI} gave {len(kept)} readings in {passed_s:.1f} s")
    watts = [one[0] for one in kept]
    total_j = mean(watts) * passed_s
    return (
        f"{passed_s:.3f}",
        str(num_launches),
        f"{mean(watts):.1f}",
        f"{quantiles(watts, n=20)[-1]:.1f}",
        f"{mean(one[1] for one in kept):.0f}",
        f"{kept[-1][2]:.1f}",
        f"{flop:.0f}",
        f"{moved_bytes:.0f}",
        f"{num_launches * flop / passed_s / TERA:.1f}",
        f"{num_launches * moved_bytes / passed_s / GIGA:.1f}",
        f"{total_j / max(num_launches, 1):.6f}",
    )


def _reading(line: str) -> tuple[float, ...]:
    """Watts, MHz and degrees; nothing of a line that was cut short or says what it does not know."""
    try:
        found = tuple(float(cell) for cell in line.split(","))
    except ValueError:
        return ()
    return found if len(found) == len(FIGURES) + 1 else ()


def _loaded(gpu: Any, call: Callable[[], Any] | None, seconds: float) -> int:
    """How often `call` ran in about `seconds`, the device never without work; nothing to run leaves it idle."""
    if call is None:
        time.sleep(seconds)
        return 0
    begin_s = time.perf_counter()
    num_done, num_next = 0, 1
    while (passed_s := time.perf_counter() - begin_s) < seconds:
        for _ in range(num_next):
            call()
        gpu.wait()
        num_done += num_next
        pace_s = (time.perf_counter() - begin_s) / num_done
        num_next = max(int(min(BATCH_S, seconds - passed_s) / pace_s), 1)
    return num_done


def _load(gpu: Any, op: str, detail: str) -> tuple[Callable[[], Any] | None, float, float]:
    if op == "idle":
        return None, 0.0, 0.0
    sizes = [int(size) for size in detail.replace("^3", "").replace("MiB", "").removesuffix(" causal").split("x")]
    if op == "gemm":
        m, n, k = (sizes * 3)[:3]
        return product(gpu, m, n, k, "nn", "bf16"), 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n)
    if op == "copy":
        num_bytes = int(sizes[0] * MEBI)
        x, out = (gpu.random(num_bytes // 2) for _ in range(2))
        return lambda: out.copy_(x), 0.0, 2.0 * num_bytes
    function = gpu.torch.nn.functional
    if op == "gelu":
        x = gpu.random(*sizes)
        return lambda: function.gelu(x, approximate="tanh"), 0.0, 4.0 * x.numel()
    q, k, v = (gpu.random(*sizes) for _ in range(3))
    batch, heads, seq, width = sizes
    flop, moved = 2.0 * batch * heads * seq**2 * width, 8.0 * q.numel()
    return lambda: function.scaled_dot_product_attention(q, k, v, is_causal=True), flop, moved


def _why_not(gpu: Any) -> str:
    if gpu.is_amd or shutil.which(NVIDIA_SMI) is None:
        return f"power and clocks are read by {NVIDIA_SMI}, which is not here"
    return ""


tables.register("power")(
    MeasuredTable(
        group="power",
        file="power.csv",
        columns=(
            *("op", "detail", "seconds", "launches", "watts_mean", "watts_p95", "sm_mhz_mean", "temp_c"),
            *("flop_per_launch", "bytes_per_launch", "tflops", "gbps", "joule_per_launch"),
        ),
        num_keys=2,
        rows=rows,
        measure=one_by_one(measure),
        why_not=_why_not,
        row_s=SECONDS + 1.0,
        num_quick=4,
    )
)
