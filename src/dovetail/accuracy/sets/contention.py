"""Compute beside communication: a kernel beside so many blocks of a collective, or beside a copy engine."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from dovetail.accuracy.columns import attention_ops, bare_ops, convolution_ops, product_ops, stacked
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.vector import ADAM_BYTES
from dovetail.hardware.chip import Chip
from dovetail.step.one_device.contention import OccupiedResources, beside, block_bytes_per_s
from dovetail.units import GIGA, MEGA, MICRO
from dovetail.workload.graph import FloatArray, Ops, Phase
from dovetail.workload.operators import code_of

BLOCKS = ("compute", "comm_blocks", "slowdown")
COPIES = ("compute", "copy_alone_gbps", "slowdown")
QUEUE_S = 16.5 * MICRO  # pace of the host in the measuring loop: what its smallest product takes
NUM_WORDS = 128256  # rows of the table of an embedding that says none: Llama 3's
BAG = (4096, 128, int(MEGA), 80)  # bags, columns, rows of the table and rows summed of a bag that says no sizes
_PRODUCT = re.compile(r"gemm(\d{1,6})")
_SIZED = re.compile(r"(?:gemm|linear)(\d{1,6})x(\d{1,6})x(\d{1,6})")
_ATTENTION = re.compile(r"attention(_backward)?(\d{1,4})x(\d{1,4})x(\d{1,6})x(\d{1,4})")
_GRID = re.compile(r"(gelu|add|copy|silu|softmax|layernorm|rmsnorm|cross_entropy|embedding)(\d{1,6})x(\d{1,6})")
_CONVOLUTION = re.compile(r"conv(\d{1,5})x(\d{1,5})x(\d{1,4})x(\d{1,5})x(\d{1,2})")
_ADAM = re.compile(r"adamw(\d{1,12})")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    words = measurements.words("compute")
    named = {word: kernel_ops(word) for word in set(words)}
    known = [ops for word in words if (ops := named[word]) is not None]
    if not known:
        raise measurements.refused("no row of this table is a kernel that can be predicted beside communication")
    unknown = Counter(word for word in words if named[word] is None)
    table = measurements.where(np.array([named[word] is not None for word in words]))
    ops, settings = stacked(known), [*zip(_helds(table), _queues_s(table), strict=True)]

    def predicted(chip: Chip) -> FloatArray:
        return _slowdowns(ops, chip, settings)

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


def _slowdowns(ops: Ops, chip: Chip, settings: list[tuple[OccupiedResources, float]]) -> FloatArray:
    """Of each row beside what is held in it, at the host's pace; rows of one setting together."""
    found = np.empty(len(settings))
    for setting in set(settings):
        rows = np.array([row for row, other in enumerate(settings) if other == setting])
        held, queue_s = setting
        found[rows] = beside(ops.taken(rows), chip, held, queue_s=queue_s).compute_slowdown
    return found


def _helds(table: Measurements) -> list[OccupiedResources]:
    """What communication takes in each row: blocks of a collective, or the traffic of a copy engine."""
    if table.has("comm_blocks"):
        counts = table.counts("comm_blocks", least=0).tolist()
        rates = [block_bytes_per_s(k) for k in counts]
        return [
            OccupiedResources(num_units=k, sram_bytes_per_s=r, hbm_bytes_per_s=r)
            for k, r in zip(counts, rates, strict=True)
        ]
    return [OccupiedResources(hbm_bytes_per_s=rate * GIGA) for rate in table.positive("copy_alone_gbps").tolist()]


def _queues_s(table: Measurements) -> list[float]:
    """The host's pace in each row; kernels replayed from a graph (`queue` says so) do not wait for it."""
    words = table.words("queue") if table.has("queue") else [""] * len(table)
    return [0.0 if word.strip().lower() == "graph" else QUEUE_S for word in words]


def _whats(table: Measurements) -> tuple[str, ...]:
    if table.has("comm_blocks"):
        return tuple(f"beside {word} blocks" for word in table.words("comm_blocks"))
    directions = table.words("direction") if table.has("direction") else [""] * len(table)
    return tuple(f"beside a copy {word}".rstrip() for word in directions)


def kernel_ops(name: str) -> Ops | None:
    """The kernel a row names, in bf16 (a bag of embeddings and Adam in fp32); None for what is not understood."""
    word = name.strip().lower()
    if match := _PRODUCT.fullmatch(word) or _SIZED.fullmatch(word):
        m, n, k = (np.array([int(size)]) for size in (match.groups() * 3)[:3])
        return product_ops(1, m, n, k, kind="linear", phase=Phase.FORWARD, dtypes=["bf16"])
    if match := _ATTENTION.fullmatch(word):
        batch, heads, seq, width = (np.array([int(size)]) for size in match.groups()[1:])
        half, whole, phase = np.array([0.5]), np.ones(1), np.array([Phase.INPUT_GRAD if match[1] else Phase.FORWARD])
        return attention_ops(batch * heads, seq, width, kv_frac=whole, work_frac=half, phase=phase, dtypes=["bf16"])
    if match := _CONVOLUTION.fullmatch(word):
        return _convolution(*(int(size) for size in match.groups()))
    return _vector_kernel(word)


def _convolution(batch: int, in_channels: int, side: int, out_channels: int, window: int) -> Ops:
    return convolution_ops(
        batch=np.array([batch]),
        in_channels=np.array([in_channels]),
        out_channels=np.array([out_channels]),
        window=np.array([window]),
        stride=np.ones(1, dtype=np.int64),
        side=np.array([side]),
        phase=np.array([Phase.FORWARD]),
        dtypes=["bf16"],
    )


def _vector_kernel(word: str) -> Ops | None:
    if word == "embedding_bag":
        return bare_ops(kind=code_of(word), phase=Phase.FORWARD, dtypes=["fp32"], extents=(1, *BAG))
    if match := _GRID.fullmatch(word):
        num_words = NUM_WORDS if match[1] == "embedding" else 1
        extents = (1, int(match[2]), int(match[3]), num_words, 1)
        return bare_ops(kind=code_of(match[1]), phase=Phase.FORWARD, dtypes=["bf16"], extents=extents)
    if match := _ADAM.fullmatch(word):
        extents, kind = (1, int(match[1]), 1, 1, 1), code_of("adam")
        side = ADAM_BYTES
        return bare_ops(kind=kind, phase=Phase.UPDATE, dtypes=["fp32"], extents=extents, side_bytes_per_element=side)
    return None


sets.register("contention")(
    Format(
        needed=BLOCKS, summary="kernels beside blocks of a collective: compute, comm_blocks, slowdown", prepare=prepare
    )
)
sets.register("contention-copies")(
    Format(needed=COPIES, summary="kernels beside a copy engine: compute, copy_alone_gbps, slowdown", prepare=prepare)
)
