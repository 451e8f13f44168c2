"""Tables: measurements to validate with and to fit to, runs of one's own, and results that were kept."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from dovetail.files.measurements import SHIPPED, shipped_folder

NUM_ROWS, NUM_FITTED = 4, 6  # of each table, and of one that a chip is fitted to
SLOW = ("models", "astra_steps", "published_training")  # whole steps: fewer rows
FITTED = ("bmm", "gemm_random", "vector", "attention")

# What nccl-tests prints, and a table of its medians; times are made up.
LOG = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1048576 step: 1024(factor) warmup iters: 5 iters: 20 agg iters: 1
#  Rank  0 Group  0 Pid  4242 on node-0 device  0 [0x00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  4242 on node-0 device  1 [0x01] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1     6.20    0.17    0.17      0     6.10    0.17    0.17      0
     1048576        262144     float     sum      -1    16.00   65.54   65.54      0    15.90   65.95   65.95      0
# Avg bus bandwidth    : 32.9
"""
COLLECTIVES = """\
system,nccl_version,collective,num_gpus,size_bytes,time_us
h100_sxm,2.29.2,all_gather,8,65536,13
b200_sxm,2.27.3,all_to_all,4,2048,10
l40s,2.27.3,all_reduce,2,1048576,80
"""


@add("csv", "CSV files and logs of validate, calibrate and calibrate --runs, and results of validate --json")
def tables(_folder: Path) -> tuple[Seed, ...]:
    found = [file for name in SHIPPED for file in sorted(shipped_folder(name).glob("*.csv"))]
    runs = _some(REPOSITORY / "examples" / "nemo-runs-dgx-h100.csv", 4)
    model = (REPOSITORY / "examples" / "llama2-13b.json").read_text(encoding="utf-8")
    return (
        *(_table(file) for file in found),
        seed({"log.txt": LOG}, "validate log.txt --json", "validate log.txt --chip h100-sxm"),
        seed({"collectives.csv": COLLECTIVES}, "validate collectives.csv --json"),
        seed(
            {"runs.csv": runs, "llama2-13b.json": model},
            "calibrate --runs runs.csv --out out.yaml --json",
            broken=("runs.csv",),
        ),
        seed({"results.json": _results()}, "validate results.json --json", "validate results.json --markdown"),
    )


def _table(file: Path) -> Seed:
    name = file.stem
    chip = " --chip h200" if file.parent.name == "h200" else ""
    commands = [f"validate {name}.csv{chip} --json", f"validate {name}.csv{chip} --worst 3"]
    if name in FITTED:
        commands.append(f"calibrate {name}.csv{chip} --out out.yaml --json")
    num_rows = 2 if name in SLOW else NUM_FITTED if name in FITTED else NUM_ROWS
    return seed({f"{name}.csv": _some(file, num_rows)}, *commands)


def _some(file: Path, num_rows: int) -> str:
    """The head of a table and rows from all over it, without what is said about them."""
    head, *rows = (line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return "\n".join([head, *rows[:: -(-len(rows) // num_rows)]]) + "\n"


def _results() -> str:
    """Results with fewer scores than were kept."""
    whole = json.loads((REPOSITORY / "benchmarks" / "results" / "published.json").read_text(encoding="utf-8"))
    for one in whole["sets"]:
        one["scores"] = one["scores"][:2]
    return json.dumps(whole)
