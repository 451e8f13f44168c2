"""Kubernetes: an Indexed Job with a pod a host, and a headless Service by which pods find the first.

Fields are those of batch/v1 Job (completionMode Indexed) and v1 Service.
"""

from __future__ import annotations

from dovetail.report.launchers.wrappers import WrappedJob, wrappers

PORT = 29500  # torchrun's default of --master-port


@wrappers.register("kubernetes")
def kubernetes(job: WrappedJob) -> str:
    """A manifest: rank 0 is the pod whose name ends in -0, and every pod has its index as rank."""
    script = "\n".join(f"              {line}".rstrip() for line in job.script.rstrip("\n").split("\n"))
    hosts = " ".join(f"{job.name}-{rank}.{job.name}" for rank in range(job.num_hosts))
    comments = "".join(f"# {line}\n" for line in job.comments)
    return f"""{comments}# put your own image with the framework in place of IMAGE
apiVersion: v1
kind: Service
metadata:
  name: {job.name}
spec:
  clusterIP: None
  selector:
    job-name: {job.name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {job.name}
spec:
  completions: {job.num_hosts}
  parallelism: {job.num_hosts}
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      subdomain: {job.name}
      restartPolicy: Never
      containers:
        - name: train
          image: IMAGE
          command: ["sh", "-c"]
          args:
            - |
              export NODE_RANK=$JOB_COMPLETION_INDEX
{script}
          env:
            - {{name: MASTER_ADDR, value: "{job.name}-0.{job.name}"}}
            - {{name: MASTER_PORT, value: "{PORT}"}}
            - {{name: HOSTS, value: "{hosts}"}}
          resources:
            limits:
              nvidia.com/gpu: {job.devices_per_host}
"""
