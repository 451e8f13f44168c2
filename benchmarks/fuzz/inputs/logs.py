"""Training logs of every framework that ships an example, cut to their first lines, and a trace with whole steps."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bar_logs import KNOWN, LOGS
from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from tests.traces_of_profilers import kernel, trace

NUM_LINES = 90  # of a log: its arguments and some steps
OPTIONS = {
    "model": "--model",
    "cluster": "--cluster",
    "plan": "--plan",
    "seq": "--seq",
    "global_batch": "--global-batch",
}
STEP = {
    "ph": "X",
    "cat": "user_annotation",
    "name": "ProfilerStep#1",
    "pid": 9,
    "tid": 1,
    "ts": 0,
    "dur": 100,
    "args": {},
}


@add("logs", "training logs of validate and calibrate --runs, and a trace with whole steps")
def logs(_folder: Path) -> tuple[Seed, ...]:
    found = []
    for known in KNOWN.values():
        file = Path(known.file)
        text = (LOGS / file).read_text(encoding="utf-8")
        lines = text if file.suffix == ".json" else "\n".join(text.split("\n")[:NUM_LINES])
        job = " ".join(f"{OPTIONS[key]} {value}" for key, value in known.job.items() if key in OPTIONS)
        commands = [f"validate {file.name} {job} --json"]
        if file.suffix == ".log":
            commands.append(f"calibrate --runs {file.name} {job} --out out.yaml --json")
        found.append(seed({file.name: lines}, *commands))
    text = trace(STEP, kernel("gemm", 50, 1, 10), kernel("ncclDevKernel", 20, 2, 50))
    job = "--model gpt2-345m --cluster h200x8 --plan zero3 --global-batch 8 --seq 1024"
    return (*found, seed({"trace.json": text}, f"validate trace.json {job} --json", "validate trace.json"))
