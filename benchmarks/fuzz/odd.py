"""Values that nobody would write, and some that somebody did."""

from __future__ import annotations

import math
from random import Random
from typing import Any

# Written into a text in place of a value: no tree can be built, or none written, that holds them.
MARKS = {
    "@deep-list@": "[" * 3000 + "]" * 3000,
    "@deep-mapping@": '{"a": ' * 200 + "1" + "}" * 200,
    "@digits@": "9" * 5000,
    "@many-digits@": "0." + "3" * 20000,
}
NUMBERS = (
    0, 1, 2, 3, 7, -1, -8, 10**6, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**9, 10**12, 10**15, 10**18,
    10**30, -(10**30), 10**400, 0.0, -0.0, 0.5, 1.5, -0.25, 1e-9, 5e-324, 1e-300, 1e9, 1e15, 1e300,
    1.7976931348623157e308, math.nan, math.inf, -math.inf,
)  # fmt: skip
LABELS = (
    "", " ", "nan", "inf", "-inf", "null", "true", "no", "1e999", "-1", "0", "0x10", "1_000", "1,5", "٣", "１２",
    "1e5", "\u202eabc", "\ufeff", "ß", "😀" * 3, "a\u0301", "\ud7ff", "x" * 1001, "x" * 70000, "a\nb", "a\tb",
    "\x1b[31m", "\x7f", "../..", "/", ".", "..", "/dev/null", "spec.yaml", "config.json", "nothing.yaml", "a,b",
    "a:b", "{}", "[]", "*a", "&a", "%s", "%n", "{0}", "__class__", "$HOME", "~", "'", '"', "\\", "@deep-list@",
    "@deep-mapping@", "@digits@", "@many-digits@",
)  # fmt: skip
QUANTITIES = (
    "0 GB", "-1 GB", "nan GB", "inf GB", "1e300 GB", "1e999 GB/s", "5 GB", "5 GiB", "5 GiB/s", "5 Gb/s", "1e-300 s",
    "1 ns", "1 y", "1e9 y", "3 W", "0 W", "1e30 W", "2 GHz", "0 Hz", "1 mm2", "0 mm2", "1e30 mm2", "7 TFLOP/s",
    "0 FLOP/s", "1e30 FLOP/s", "0.8 pJ", "5 parsec", "5", "5GB GB", "GB", "5 gb", "1 TB/s", "1e-30 B/s", "10 steps",
    "0 steps", "1e9 steps",
)  # fmt: skip
NAMES = (
    "gpt2-345m", "bert-base", "resnet-18", "t5-large", "dlrm", "mixtral-8x7b", "dgx-h100", "dgx-h100x8", "ace-torus",
    "h100-sxm", "tpuv2-like", "tpuv4-like", "ddp", "zero3", "tensor-8", "ring", "switch", "mesh", "fat-tree", "full",
    "none", "selective", "bf16", "fp8", "int8", "fp32", "adam", "sgd", "auto", "best", "gpipe", "zb-v", "dualpipe",
    "interleaved", "flash", "unfused", "eager", "compiled", "sm", "dma", "ace", "even", "all-to-all", "megatron",
    "torus", "flat",
)  # fmt: skip


def odd_number(rng: Random) -> Any:
    return rng.choice(NUMBERS)


def odd_word(rng: Random) -> str:
    return rng.choice(rng.choice((LABELS, QUANTITIES, NAMES)))


def odd_value(rng: Random) -> Any:
    """A number, a word, or something with an inside."""
    kind = rng.randrange(10)
    if kind < 4:
        return odd_number(rng)
    if kind < 8:
        return odd_word(rng)
    return rng.choice(
        (None, True, False, [], {}, [[]], [None], [{}], {"": 1}, {"base": "gpt2-345m"}, {"name": "x"}, [1, 2, 3],
        ["a", "b"], [[1, 2], [3]], [0] * 3000, {f"k{n}": n for n in range(300)}, "@deep-list@",
        {"file": "nothing.json"})
    )  # fmt: skip


def near_number(value: float, rng: Random) -> Any:
    """Another number that `value` may have been meant to be, or has to do with."""
    try:
        return rng.choice(
            (value + 1, value - 1, -value, value * 2, value // 2, value * 3, value * 10**3, value * 10**6,
            value * 10**12, value / 7, float(value), str(value), [value], [value, value], {"value": value},
            value == 1)
        )  # fmt: skip
    except (OverflowError, ValueError):
        return 0
