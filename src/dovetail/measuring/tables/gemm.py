"""Matrix products by dtype: half of the sample are those of models, half are spread evenly over sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from random import Random
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, tflops, time_us, words

COLUMNS = ("m", "n", "k", "layout", "time_us", "tflops")
LAYOUTS = ("nt", "nn", "tn")  # forward, input gradient and weight gradient of a linear layer
# Hidden and feed-forward widths, and widths of keys and values beside queries, of models that are trained; vocabularies
# are padded, as heads of odd ones are in the table of eager operators.
MODELS = (
    (1024, 4096, 3072, 50304),
    (2048, 8192, 6144, 32000),
    (3072, 12288, 9216, 50304),
    (4096, 11008, 12288, 32000),
    (4096, 14336, 6144, 128256),
    (8192, 28672, 10240, 128256),
    (12288, 49152, 36864, 50304),
    (16384, 53248, 18432, 128256),
)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
SHARDS = (1, 2, 4, 8)
LEAST_SIDE, MOST_SIDE = 64, 32768
LEAST_FP8_SIDE = 1024  # narrower layers are not trained in fp8
MOST_FLOP = {"bf16": 1.2e13, "fp16": 1.2e13, "fp8": 1.2e13, "tf32": 3e12, "fp32": 4e11}  # style: some 20 ms of a call
SEED = 25


def sample(dtype: str, num_models: int, num_spread: int, _gpu: Any) -> tuple[Key, ...]:
    """Products of models and of sides spread evenly in logarithms, most of the latter in whole tiles; small ones first.

    Large ones one after another keep the card at its power limit.
    """
    rng = Random(SEED)
    found: dict[Key, None] = {}
    most_flop, has_layout = MOST_FLOP[dtype], dtype != "fp8"
    while len(found) < num_models:
        m, n, k, layout = _of_model(rng)
        if 2.0 * m * n * k <= most_flop and (has_layout or min(n, k) >= LEAST_FP8_SIDE):
            found[words(m, n, k, layout) if has_layout else words(m, n, k)] = None
    while len(found) < num_models + num_spread:
        unit = rng.choice((64, 64, 64, 8 if has_layout else 16))
        m, n, k = (_side(rng, unit) for _ in range(3))
        if 2.0 * m * n * k <= most_flop and (has_layout or min(n, k) >= LEAST_FP8_SIDE):
            found[words(m, n, k, rng.choice(LAYOUTS)) if has_layout else words(m, n, k)] = None
    return tuple(sorted(found, key=lambda key: prod(int(size) for size in key[:3])))


def _of_model(rng: Random) -> tuple[int, int, int, str]:
    """One of the three products of a linear layer, a shard of it."""
    hidden, wide, heads, vocab = rng.choice(MODELS)
    tokens, shards = rng.choice(TOKENS), rng.choice(SHARDS)
    ins, outs = rng.choice(
        ((hidden, heads // shards), (hidden // shards, hidden), (hidden, wide // shards), (wide // shards, hidden))
        + (((hidden, vocab // shards),) if rng.random() < 0.3 else ())  # style: heads are one layer of many
    )
    layout = rng.choice(LAYOUTS)
    m, n, k = {"nt": (tokens, outs, ins), "nn": (tokens, ins, outs), "tn": (outs, ins, tokens)}[layout]
    return m, n, k, layout


def _side(rng: Random, unit: int) -> int:
    least, most = LEAST_SIDE / unit, MOST_SIDE / unit
    return unit * round(least * float((most / least) ** rng.random()))


def measure(dtype: str, gpu: Any, key: Key) -> tuple[str, ...]:
    m, n, k = (int(size) for size in key[:3])
    call = scaled_product(gpu, m, n, k) if dtype == "fp8" else product(gpu, m, n, k, key[3], dtype)
    matmul = gpu.torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, dtype == "tf32"
    try:
        seconds = gpu.median_s(call)
    finally:
        matmul.allow_tf32 = before
    return time_us(seconds), tflops(2.0 * m * n * k, seconds)


def product(gpu: Any, m: int, n: int, k: int, layout: str, dtype: str) -> Callable[[], Any]:
    """C[m,n] = A[m,k] B[k,n]; letters say whether A and B are stored transposed."""
    a = gpu.random(k, m, dtype=dtype).t() if layout[0] == "t" else gpu.random(m, k, dtype=dtype)
    b = gpu.random(n, k, dtype=dtype).t() if layout[1] == "t" else gpu.random(k, n, dtype=dtype)
    return lambda: a @ b


def scaled_product(gpu: Any, m: int, n: int, k: int) -> Callable[[], Any]:
    """An fp8 product with one scale for each operand, written out in bf16."""
    a, b = (gpu.random(*shape).to(gpu.dtype("fp8")) for shape in ((m, k), (n, k)))
    one = gpu.torch.ones((), device=gpu.device, dtype=gpu.torch.float32)
    return lambda: gpu.torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=gpu.dtype("bf16"))


def _why_not(dtype: str, gpu: Any) -> str:
    if dtype == "fp8":
        if gpu.is_amd:
            return "fp8 products on AMD's GPUs are not measured: their fp8 is another format"
        return "" if gpu.capability >= (8, 9) else "fp8 needs compute capability 8.9"
    if dtype == "tf32" and (gpu.is_amd or gpu.capability < (8, 0)):
        return "TF32 needs compute capability 8.0"
    if dtype == "bf16" and not gpu.is_cpu and not gpu.is_amd and gpu.capability < (8, 0):
        return "bf16 needs compute capability 8.0"
    return ""


for _dtype, _num_models, _num_spread in (
    ("bf16", 90, 80), ("fp16", 8, 8), ("fp8", 16, 8), ("tf32", 6, 6), ("fp32", 6, 6)
):  # fmt: skip
    tables.register(f"gemm_{_dtype}")(
        MeasuredTable(
            group="gemm",
            file=f"gemm_{_dtype}.csv",
            columns=COLUMNS if _dtype != "fp8" else tuple(one for one in COLUMNS if one != "layout"),
            num_keys=4 if _dtype != "fp8" else 3,
            rows=partial(sample, _dtype, _num_models, _num_spread),
            measure=one_by_one(partial(measure, _dtype)),
            why_not=partial(_why_not, _dtype),
        )
    )
