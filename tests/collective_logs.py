"""Logs of nccl-tests, rccl-tests and OSU's micro-benchmarks as the tools print them, and ways to break them."""

from __future__ import annotations

COLUMNS = (
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw"
    " #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)


def nccl_row(size_bytes: int, time_us: float, *, ranks: int = 8, redop: str = "sum", passes: int = 2) -> str:
    algorithm = size_bytes / time_us / 1e3
    bus = algorithm * passes * (ranks - 1) / ranks
    block = f"  {time_us:7.2f}  {algorithm:6.2f}  {bus:6.2f}       0"
    return f"{size_bytes:12d}  {size_bytes // 4:12d}     float  {redop:>6}      -1{block}{block}\n"


def devices(ranks: int = 8, nodes: int = 1, product: str = "NVIDIA H100 80GB HBM3") -> str:
    return "# Using devices\n" + "".join(
        f"#  Rank {rank:2d} Group  0 Pid  4242 on node-{rank * nodes // ranks} device {rank % 8:2d} [0x{rank:02x}]"
        f" {product}\n"
        for rank in range(ranks)
    )


START = (
    "# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1\n#\n"
)
SIZES = tuple(1024 * 4**power for power in range(10))
ROWS = tuple(nccl_row(size, 20.0 + size / 3e5) for size in SIZES)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 123.456\n#\n"
NAMED = "# Collective test starting: all_reduce_perf\n"
GOOD = NAMED + START + devices() + COLUMNS + "".join(ROWS) + END
OLD = START + devices() + COLUMNS + "".join(ROWS) + END  # releases that do not say which test it is
RCCL = (
    "# Collective test starting: all_reduce_perf\n# nics: 400 GB/s\n"
    "# nThreads: 1 nGpus: 1 nRanks: 1 minBytes: 1024 maxBytes: 1073741824 step: 4(factor) warmupIters: 5 iters: 20\n"
    "rccl-tests: Version develop:448c4c7\n"
    + devices(16, 2, "AMD Instinct MI300X")
    + COLUMNS
    + "".join(nccl_row(size, 150.0 + size / 1.7e5, ranks=16) for size in SIZES)
    + END
)
OSU = (
    "# mpirun -np 8 ./osu_xccl_allgather\n# platform: H100\n# OSU NCCL-CUDA Allgather Latency Test v7.2\n"
    "# Size       Avg Latency(us)\n" + "".join(f"{size:<10d}{11.0 + size / 3e4:16.2f}\n" for size in SIZES[:6])
)


def _with_row(place: int, row: str) -> str:
    return GOOD.replace(ROWS[place], row)


# Logs that nothing can be compared of: by what the one line must name.
REFUSED: dict[str, tuple[str, str]] = {
    "no rows": (NAMED + START + devices() + COLUMNS, "no row"),
    "only the end": (END, "no row"),
    "times in ms": (GOOD.replace("(us)", "(ms)"), "in us"),
    "latency in ms": (OSU.replace("(us)", "(ms)"), "in us"),
    "only the columns": (COLUMNS, "no row"),
    "only a start": (START, "no row"),
    "failed before the first row": (
        NAMED + START + devices() + COLUMNS + "node-0: Test NCCL failure common.cu:958 'unhandled system error'\n",
        "the run failed",
    ),
    "cut in the first row": (GOOD[: GOOD.index(ROWS[0]) + 40], "columns"),
    "every row cut short": (NAMED + START + devices() + COLUMNS + "".join(row[:60] + "\n" for row in ROWS), "columns"),
    "every time not a number": (
        NAMED + START + devices() + COLUMNS + nccl_row(1024, 20.0).replace("20.00", "  nan"),
        "time must be",
    ),
    "every time zero": (
        NAMED + START + devices() + COLUMNS + nccl_row(1024, 20.0).replace("20.00", " 0.00"),
        "time must be",
    ),
    "every row wrong": (
        NAMED + START + devices() + COLUMNS + nccl_row(1024, 20.0).replace("      0 ", "     17 ")[:-2] + "9\n",
        "wrong",
    ),
    "no platform": (GOOD.replace(devices(), devices(product="")), "chip"),
    "another platform": (GOOD.replace("H100 80GB HBM3", "Tesla T4"), "Tesla T4"),
    "a card without NVLink": (GOOD.replace("H100 80GB HBM3", "H100 PCIe"), "PCIe"),
    "a TPU": (GOOD.replace("NVIDIA H100 80GB HBM3", "TPU v4"), "TPU v4"),
    "two kinds of GPU": (GOOD.replace("H100 80GB HBM3", "A100-SXM4-80GB", 1), "several kinds"),
    "one rank": (GOOD.replace(devices(), devices(1)).replace("nGpus 8", "nGpus 1"), "ranks"),
    "a rank is missing": (GOOD.replace("#  Rank  3", "#  Runk  3"), "rank 3"),
    "no ranks at all": (COLUMNS + "".join(ROWS), "ranks"),
    "ranks that are no number": (COLUMNS + "# ranks: eight\n" + "".join(ROWS), "ranks"),
    "ranks below 0": (COLUMNS + "# ranks: -8\n" + "".join(ROWS), "ranks"),
    "a rank too many by far": (COLUMNS + "# ranks: 99999999999\n" + "".join(ROWS), "ranks"),
    "ranks that nodes do not divide": (GOOD.replace(devices(), devices(9, 2)), "nodes"),
    "nodes that are no number": ("# nodes: two\n" + GOOD, "nodes"),
    "two nodes without NICs": (GOOD.replace(devices(), devices(16, 2)), "NICs"),
    "NICs without a unit": ("# nics: 400\n" + GOOD.replace(devices(), devices(16, 2)), "unit"),
    "NICs of nothing": ("# nics: 0 GB/s\n" + GOOD.replace(devices(), devices(16, 2)), "above 0"),
    "a broadcast": (GOOD.replace("all_reduce_perf", "broadcast_perf"), "broadcast"),
    "sends": (GOOD.replace("all_reduce_perf", "sendrecv_perf"), "sendrecv"),
    "a collective that is none": (OLD + "# collective: all_redoce\n", "all_redoce"),
    "no collective, nothing reduced": (OLD.replace("   sum ", "  none "), "which collective"),
    "no collective, bandwidths of none": (
        START + devices() + COLUMNS + nccl_row(2**30, 4000.0, passes=3),
        "which collective",
    ),
    "one node of MI300X": (GOOD.replace("NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"), "MI300X"),
    "all-to-all over MI300X": (RCCL.replace("all_reduce_perf", "alltoall_perf"), "MI300X"),
    "OSU without ranks": (OSU.replace("# mpirun -np 8 ./osu_xccl_allgather\n", ""), "ranks"),
    "OSU without platform": (OSU.replace("# platform: H100\n", ""), "chip"),
    "OSU on hosts": (OSU.replace("NCCL-CUDA", "MPI"), "host memory"),
    "OSU of a barrier": (OSU.replace("Allgather", "Barrier"), "Barrier"),
    "OSU without latencies": ("\n".join(line.split("   ")[0] for line in OSU.splitlines()), "latency"),
    "a NUL": (GOOD.replace("float", "flo\0t", 1), "NUL"),
}

# Logs with rows that can be kept: how many, and what is said of the others.
KEPT: dict[str, tuple[str, int, str]] = {
    "cut in the last row": (GOOD[: GOOD.index(ROWS[-1]) + 50], 18, "columns"),
    "cut between rows": (GOOD[: GOOD.index(ROWS[5])], 10, ""),
    "failed after rows": (
        GOOD[: GOOD.index(ROWS[7])] + "node-0: Test CUDA failure common.cu:892 'an illegal memory access'\n",
        14,
        "the run failed",
    ),
    "failed in a row": (GOOD[: GOOD.index(ROWS[7]) + 45] + "node-0: Test NCCL failure\n", 14, "columns"),
    "a time that is not a number": (_with_row(2, ROWS[2].replace("20.05", "  nan", 1)), 19, "nan"),
    "a time of nothing": (_with_row(2, ROWS[2].replace("20.05", " 0.00", 1)), 19, "0.00"),
    "a time below nothing": (_with_row(2, ROWS[2].replace(" 20.05", "-20.05", 1)), 19, "-20.05"),
    "wrong elements": (_with_row(3, ROWS[3].rstrip()[:-1] + "5\n"), 19, "5 elements were wrong"),
    "wrong elements in both": (
        _with_row(3, ROWS[3].replace("       0 ", "      12 ").rstrip()[:-1] + "5\n"),
        18,
        "wrong",
    ),
    "a size of nothing": (_with_row(0, ROWS[0].replace("1024 ", "   0 ", 1)), 18, "size"),
    "a size that is no number": (_with_row(0, ROWS[0].replace("1024 ", "1.5e ", 1)), 18, "size"),
    "a size with a point": (_with_row(0, ROWS[0].replace("1024 ", "10.4 ", 1)), 18, "size"),
    "a column too many": (_with_row(1, ROWS[1].rstrip() + "  1 2 3 4 5\n"), 18, "columns"),
    "words of NCCL between rows": (_with_row(4, ROWS[4] + "node-0:4242:4300 [0] NCCL INFO comm 0x55 rank 0\n"), 20, ""),
    "not checked": (GOOD.replace("       0\n", "     N/A\n").replace("       0  ", "     N/A  "), 20, ""),
    "OSU with a row cut short": (OSU + "16777216\n", 6, "latency"),
    "OSU with a word for a latency": (OSU + "16777216   aborted\n", 6, "aborted"),
}
