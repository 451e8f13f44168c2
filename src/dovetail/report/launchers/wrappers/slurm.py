"""Slurm: a batch script that runs the launch once on every host.

Variables are those of sbatch(1) and srun(1).
"""

from __future__ import annotations

from dovetail.report.launchers.wrappers import WrappedJob, wrappers

PORT = 29500  # torchrun's default of --master-port


@wrappers.register("slurm")
def slurm(job: WrappedJob) -> str:
    """An sbatch script: one task a host, which learns its rank from Slurm."""
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={job.name}",
        f"#SBATCH --nodes={job.num_hosts}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={job.devices_per_host}",
        "#SBATCH --exclusive",
        *(f"# {line}" for line in job.comments),
        'HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr "\\n" " ")',
        "MASTER_ADDR=${HOSTS%% *}",
        f"MASTER_PORT={PORT}",
        "export HOSTS MASTER_ADDR MASTER_PORT",
        "cat > launch.sh <<'LAUNCH'",
        job.script.rstrip("\n"),
        "LAUNCH",
        "srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID exec sh launch.sh'",
    ]
    return "\n".join(lines) + "\n"
