"""Batch systems around a launch: every host runs the script and learns its rank."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

import dovetail
from dovetail.errors import InvalidInput
from dovetail.report.launchers.wrappers import WrappedJob, wrappers

SCRIPT = """#!/bin/sh
cat > a.json <<'END'
{"a": 1}
END
torchrun --nnodes 4 --node-rank "$NODE_RANK" train.py
"""
JOB = WrappedJob(name="llama", script=SCRIPT, num_hosts=4, devices_per_host=8, comments=("a framework",))


def test_slurm_runs_one_task_a_host_that_knows_its_rank():
    text = wrappers["slurm"](JOB)
    assert "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n" in text
    assert "NODE_RANK=$SLURM_NODEID" in text
    assert SCRIPT.rstrip() in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)  # what bash reads whole


def test_kubernetes_has_a_pod_a_host_and_a_name_for_the_first():
    service, job = yaml.safe_load_all(wrappers["kubernetes"](JOB))
    assert service["spec"]["clusterIP"] == "None"
    assert (job["spec"]["completions"], job["spec"]["completionMode"]) == (4, "Indexed")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert {"name": "MASTER_ADDR", "value": "llama-0.llama"} in container["env"]
    subprocess.run(["sh", "-n"], input=container["args"][0], text=True, check=True)
    assert '{"a": 1}\nEND\n' in container["args"][0]  # the file ends where the shell looks for its end


def test_a_launch_is_wrapped_by_name_and_an_unknown_name_is_one_line():
    said: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100x32", "plan": "zero1", "framework": "megatron-lm"}
    assert "#SBATCH --nodes=4" in str(dovetail.launch(**said, wrapper="slurm"))
    with pytest.raises(InvalidInput, match="no wrapper is named 'slurn'"):
        dovetail.launch(**said, wrapper="slurn")
