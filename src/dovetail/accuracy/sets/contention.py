"""Compute beside communication: a kernel beside so many blocks of a collective, or beside a copy engine."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from dovetail.accuracy.columns import attention_ops, bare_ops, product_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Given, Prepared, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.hardware.chip import Chip
from dovetail.schedule.contention import Held, beside, block_bytes_per_s
from dovetail.units import GIGA, MEGA, MICRO
from dovetail.workload.graph import FloatArray, Ops, Phase
from dovetail.workload.operators import code_of

BLOCKS = ("compute", "comm_blocks", "slowdown")
COPIES = ("compute", "copy_alone_gbps", "slowdown")
QUEUE_S = 16.5 * MICRO  # pace of the host in the measuring loop: what its smallest product takes
BAG = (4096, 128, int(MEGA), 80)  # bags, columns, rows of the table and rows summed of a bag that says no sizes
_PRODUCT = re.compile(r"gemm(\d{1,6})")
_SIZED = re.compile(r"(?:gemm|linear)(\d{1,6})x(\d{1,6})x(\d{1,6})")
_ATTENTION = re.compile(r"attention(\d{1,4})x(\d{1,4})x(\d{1,6})x(\d{1,4})")
_GRID = re.compile(r"(gelu|add|copy|silu|softmax|layernorm|rmsnorm)(\d{1,6})x(\d{1,6})")


def prepare(measurements: Measurements, given: Given) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    words = measurements.words("compute")
    named = {word: kernel_ops(word) for word in set(words)}
    known = [ops for word in words if (ops := named[word]) is not None]
    if not known:
        raise measurements.refused("no row of this table is a kernel that can be predicted beside communication")
    unknown = Counter(word for word in words if named[word] is None)
    table = measurements.where(np.array([named[word] is not None for word in words]))
    helds = _helds(table)

    def predicted(chip: Chip) -> FloatArray:
        pairs = zip(known, helds, strict=True)
        return np.array([float(beside(o, chip, h, queue_s=QUEUE_S).compute_slowdown[0]) for o, h in pairs])

    one = Prepared(
        name=measurements.name,
        chip=chip,
        unit="times",
        kinds=tuple(table.words("compute")),
        whats=_whats(table),
        measured=table.positive("slowdown"),
        predicted=predicted,
        promise=promise_for(chip, "h200 contention"),
        skipped=tuple((f"rows of {word[:40]}, which is not understood", n) for word, n in sorted(unknown.items())),
    )
    return (one,)


def _helds(table: Measurements) -> list[Held]:
    """What communication takes in each row: blocks of a collective, or the traffic of a copy engine."""
    if table.has("comm_blocks"):
        counts = table.counts("comm_blocks", least=0).tolist()
        return [Held(num_units=k, sram_bytes_per_s=block_bytes_per_s(k)) for k in counts]
    return [Held(hbm_bytes_per_s=rate * GIGA) for rate in table.positive("copy_alone_gbps").tolist()]


def _whats(table: Measurements) -> tuple[str, ...]:
    if table.has("comm_blocks"):
        return tuple(f"beside {word} blocks" for word in table.words("comm_blocks"))
    directions = table.words("direction") if table.has("direction") else [""] * len(table)
    return tuple(f"beside a copy {word}".rstrip() for word in directions)


def kernel_ops(name: str) -> Ops | None:
    """The kernel a row names, in bf16 (a bag of embeddings in fp32); None for what is not understood."""
    word = name.strip().lower()
    if match := _PRODUCT.fullmatch(word) or _SIZED.fullmatch(word):
        m, n, k = (np.array([int(size)]) for size in (match.groups() * 3)[:3])
        return product_ops(1, m, n, k, kind="linear", phase=Phase.FORWARD, dtypes=["bf16"])
    if match := _ATTENTION.fullmatch(word):
        batch, heads, seq, width = (np.array([int(size)]) for size in match.groups())
        half, whole, phase = np.array([0.5]), np.ones(1), np.array([Phase.FORWARD])
        return attention_ops(batch * heads, seq, width, kv_frac=whole, work_frac=half, phase=phase, dtypes=["bf16"])
    if word == "embedding_bag":
        extents = (1, *BAG)
        return bare_ops(kind=code_of(word), phase=Phase.FORWARD, dtypes=["fp32"], extents=extents)
    if match := _GRID.fullmatch(word):
        extents = (1, int(match[2]), int(match[3]), 1, 1)
        return bare_ops(kind=code_of(match[1]), phase=Phase.FORWARD, dtypes=["bf16"], extents=extents)
    return None


sets.register("contention")(
    Format(
        needed=BLOCKS, summary="kernels beside blocks of a collective: compute, comm_blocks, slowdown", prepare=prepare
    )
)
sets.register("contention-copies")(
    Format(needed=COPIES, summary="kernels beside a copy engine: compute, copy_alone_gbps, slowdown", prepare=prepare)
)
