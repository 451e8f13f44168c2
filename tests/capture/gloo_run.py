"""A real run of 4 processes over gloo, each of which writes the collectives of its last step as JSON.

`gloo_run.py folder port job...`; the processes are forks of one that has imported PyTorch, which takes longest.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import distributed_jobs  # type: ignore[import-not-found]  # in the folder of this script
import torch
import torch._dynamo
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

NUM_RANKS = 4

# Written out again here, so that a mistake in one table does not hide in the other: by operator, its kind and which
# argument has the bytes (None: what it makes).
KINDS: dict[str, tuple[str, int | None]] = {
    "c10d::allreduce_": ("all-reduce", 0),
    "c10d::broadcast_": ("broadcast", 0),
    "c10d::_allgather_base_": ("all-gather", 0),
    "c10d::_reduce_scatter_base_": ("reduce-scatter", 1),
    "c10d::send": ("send", 0),
    "c10d::recv_": ("recv", 0),
    "_c10d_functional::all_reduce": ("all-reduce", 0),
    "_c10d_functional::all_gather_into_tensor": ("all-gather", None),
    "_c10d_functional::reduce_scatter_tensor": ("reduce-scatter", 0),
    "_c10d_functional::all_to_all_single": ("all-to-all", 0),
}


class Listener(TorchDispatchMode):
    """Notes calls of process groups, and lets them run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int, list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented
        made = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name in KINDS:
            kind, place = KINDS[name]
            given = made if place is None else args[place]
            tensors = given if isinstance(given, list | tuple) else [given]
            [group] = [one for one in args if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one)] or [
                next(one for one in reversed(args) if isinstance(one, str | dist.ProcessGroup))
            ]
            if isinstance(group, torch.ScriptObject):
                group = dist.ProcessGroup.unbox(group)
            elif isinstance(group, str):
                group = torch._C._distributed_c10d._resolve_process_group(group)
            num_bytes = sum(one.numel() * one.element_size() for one in tensors)
            self.calls.append((kind, num_bytes, dist.get_process_group_ranks(group)))
        return made


def calls_by_job(names: list[str]) -> dict[str, list[tuple[str, int, list[int]]]]:
    found = {}
    for name in names:
        listener, ends = Listener(), [0]

        def ended(*_args: Any, listener: Listener = listener, ends: list[int] = ends) -> None:
            ends.append(len(listener.calls))

        handle = register_optimizer_step_post_hook(ended)
        with listener:
            distributed_jobs.JOBS[name]()
        handle.remove()
        found[name] = listener.calls[ends[-2] : ends[-1]]
        dist.barrier()
    dist.destroy_process_group()
    return found


def main(folder: Path, port: str, names: list[str]) -> int:
    """The number of processes that failed."""
    children = []
    for rank in range(NUM_RANKS):
        child = os.fork()
        if child:
            children.append(child)
            continue
        code = 1
        try:
            own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": NUM_RANKS, "MASTER_ADDR": "127.0.0.1"}
            os.environ.update({name: str(value) for name, value in own.items()}, MASTER_PORT=port)
            (folder / f"{rank}.json").write_text(json.dumps(calls_by_job(names)))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
