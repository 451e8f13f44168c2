"""Ten jobs, the best plan of each by every framework, and what the framework's own parser says to its launch text.

`python -m benchmarks.launch_check` makes an environment with the frameworks, plans the jobs, has each launch text read
by its framework, reads it back and simulates it, and records all of it in benchmarks/results/launch-check.json. PyTorch
and what else the environment shares are those of the Python that runs this; frameworks are installed without what they
depend on, so that no CUDA build of PyTorch comes with them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import Any

import dovetail
from benchmarks.stamp import RESULTS, stamp
from dovetail.errors import DovetailError
from dovetail.evaluate import Outcome, evaluate
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.frameworks.torchtitan import CONFIGS
from dovetail.report.launchers.launch import launch_record, launch_text
from dovetail.report.launchers.read_back import read_back

RECORD = RESULTS / "launch-check.json"
QWEN = Path(__file__).parent / "data" / "qwen3-30b-a3b.json"
JOBS: dict[str, dict[str, Any]] = {
    "llama3-8b on 64 H100": {"model": "llama3-8b", "cluster": "h100x64", "global_batch": 256},
    "llama3-70b on 512 H100": {"model": "llama3-70b", "cluster": "h100x512", "global_batch": 1024},
    "llama3-405b on 16,384 H100": {"model": "llama3-405b", "cluster": "h100x16384", "global_batch": 2048},
    "gpt3-175b on 1,024 A100": {"model": "gpt3-175b", "cluster": "a100x1024", "global_batch": 1536},
    "mixtral-8x7b on 64 H100": {"model": "mixtral-8x7b", "cluster": "h100x64", "global_batch": 256},
    "deepseek-v3 on 2,048 H100": {"model": "deepseek-v3", "cluster": "h100x2048", "global_batch": 15360},
    "Qwen3-30B-A3B on 16 H100": {"model": str(QWEN), "cluster": "h100x16", "global_batch": 256, "seq": 4096},
    "llama3-8b on 8 L40S": {"model": "llama3-8b", "cluster": "l40sx8", "global_batch": 64},
    "llama3-70b on 64 MI300X": {"model": "llama3-70b", "cluster": "mi300xx64", "global_batch": 256},
    "llama2-70b on 256 TPU v5p": {"model": "llama2-70b", "cluster": "tpu-v5px256", "global_batch": 256},
}
# Packages that parsers import; with what comes from the Python that runs this.
PACKAGES = (
    "torchtitan==0.3.0", "tyro", "docstring-parser", "typeguard", "torchdata", "torch_checkpointing", "datasets<4.8",
    "tensorboard", "wandb", "einops", "spmd_types==0.2.3", "pyarrow", "dill", "pandas", "xxhash", "multiprocess",
    "fsspec", "python-dateutil", "pytz", "tzdata", "six", "aiohttp", "torchao", "triton", "megatron-core==0.16.1",
    "accelerate==1.15.0", "hjson", "ninja", "py-cpuinfo", "msgpack", "psutil", "pydantic", "pydantic-core",
    "annotated-types", "typing-inspection", "wheel", "setuptools",
)  # fmt: skip
MAXTEXT, DEEPSPEED = "maxtext==0.2.5", "deepspeed==0.19.8"


def environment(folder: Path) -> Path:
    """The Python of an environment with the frameworks, made where it does not stand."""
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        (site / "shared.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--no-deps", *PACKAGES], check=True)
        subprocess.run(
            [*pip, "install", "--no-deps", "--no-build-isolation", DEEPSPEED],
            check=True,
            env=os.environ | {"DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"},
        )
        wheel = ["--python-version", "3.12", "--only-binary", ":all:", "--no-deps", "--dest", str(folder)]
        subprocess.run([*pip, "download", *wheel, MAXTEXT], check=True)
        with zipfile.ZipFile(next(folder.glob("maxtext-*.whl"))) as found:
            found.extractall(folder / "maxtext")
        (folder / "made").touch()
    return python


def texts(folder: Path, names: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Of each job and framework what is recorded, and what the framework's parser is given."""
    records, given = [], []
    for job, said in JOBS.items():
        if names and job not in names:
            continue
        for framework in (name for name, entry in launchers.items() if entry.is_for_tpus == ("TPU" in job)):
            record, text = _of_framework(job, said, framework, folder)
            print(f"{job}: {framework} {record.get('step_s', record.get('refusal'))}", file=sys.stderr, flush=True)
            records.append(record)
            given.append(text)
    return records, given


def _of_framework(
    job: str, said: dict[str, Any], framework: str, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    entry, started_s = launchers[framework], time.process_time()
    record: dict[str, Any] = {"job": job, "framework": framework, "release": entry.versions[0]}
    try:
        found = dovetail.plan(**said, top=1, framework=framework)
    except DovetailError as error:
        return record | {"refusal": error.message}, {}
    if not found.fits:
        return record | {"refusal": found.headline}, {}
    question = found.outcome.question
    launch = entry(question.workload, question.cluster, found.plan)
    again = read_back(launch_text(launch), found.job.workload, found.job.cluster)
    outcome = evaluate(again.workload, found.job.cluster, again.plan, has_changes=False)
    again_s = outcome.step.step_s if isinstance(outcome, Outcome) else float("nan")
    memory = found.record["best"]["memory"]
    overrides = {}
    if framework.startswith("megatron"):  # both run Megatron Core, whose fields the second's text has
        bridge = launchers["megatron-bridge"](question.workload, question.cluster, found.plan)
        overrides = dict(word.split("=", 1) for word in bridge.words if "=" in word)
    text = launch_record(launch) | {
        "framework": framework,
        "is_known": found.job.workload.model.name in CONFIGS,
        "is_megatron": "pretrain_gpt.py" in launch.words,
        "data_parallel": found.plan.data_parallel,
        "overrides": overrides,
        "maxtext": str(folder / "maxtext"),
        "maxtext_version": MAXTEXT.partition("==")[2],
    }
    return record | {
        "step_s": found.step_s,
        "gap_frac": found.gap_frac,
        "fit_probability": memory["fit_probability"],
        "read_back_s": again_s,
        "runs_as_printed": not [one for one in launch.missing if one.instead],
        "left_out": [one.what for one in launch.missing],
        "planned_cpu_s": round(time.process_time() - started_s, 1),
    }, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default=str(Path(tempfile.gettempdir()) / "dovetail-launch-check"))
    parser.add_argument("--job", action="append", default=[], help="only this one of the ten; repeatable")
    said = parser.parse_args()
    folder = Path(said.environment)
    python = environment(folder)
    records, given = texts(folder, tuple(said.job))
    asked = [text for text in given if text]
    ran = subprocess.run(
        [str(python), str(Path(__file__).parent / "launch_parsers.py")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    answers = iter(json.loads(ran.stdout[ran.stdout.index("[{") :]))
    for record, text in zip(records, given, strict=True):
        if text:
            record["parsed"] = next(answers)
    for record in records:
        parsed = record.get("parsed", {})
        verdict = (
            record.get("refusal") or f"{parsed.get('accepted')} {parsed.get('version', '')} {parsed.get('note', '')}"
        )
        print(f"{record['job']:28} {record['framework']:16} {verdict[:150]}")
    if not said.job:
        RECORD.write_text(json.dumps(stamp() | {"rows": records}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
