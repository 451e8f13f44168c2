"""The peak memory of jobs as PyTorch's own MemTracker counts it, on the CPU and with real numbers; printed as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import distributed_jobs  # type: ignore[import-not-found]  # in the folder of this script
import torch
import torch.distributed as dist
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.testing._internal.distributed.fake_pg import FakeStore

WORLD_SIZE = 8
train = distributed_jobs.train


def peak_bytes(name: str) -> int:
    found = []

    def tracked(model: Any, **options: Any) -> None:
        tracker: Any = FSDPMemTracker(model) if isinstance(model, torch.distributed.fsdp.FSDPModule) else MemTracker()
        if not isinstance(tracker, FSDPMemTracker):
            tracker.track_external(model)
        handle = register_optimizer_step_post_hook(lambda *_args: tracker.reset_mod_stats())
        with tracker:
            train(model, **options)
        handle.remove()
        found.append(sum(one["Total"] for one in tracker.get_tracker_snapshot("peak").values()))

    distributed_jobs.train = tracked
    distributed_jobs.JOBS[name]()
    return int(found[0])


if __name__ == "__main__":
    os.environ.update({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(WORLD_SIZE)})
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD_SIZE)
    print(json.dumps({name: peak_bytes(name) for name in sys.argv[1:]}))
