"""Calls of PyTorch that a recording of a job cannot follow: each is refused where it is made, with the reason."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.multiprocessing
import torch.utils.cpp_extension

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.torch_failures import user_line
from dovetail.importers.torch_groups import Job

_GRAPHS = (
    "replays kernels that a recording does not see; turn CUDA graphs off, as TorchTitan's "
    "--training.disable_cuda_graphs does"
)
_IN_ITS_PLACE = "use an operator of PyTorch in its place while it is recorded"
_BUILT = f"builds CUDA code, which cannot run without a GPU; {_IN_ITS_PLACE}"
_RING = "torch.distributed.tensor.experimental._context_parallel._attention"
# By module and name, why. A class stays one, as code names it in annotations and in isinstance.
REFUSED: dict[tuple[str, str], str] = {
    ("torch.cuda", "CUDAGraph"): _GRAPHS,
    ("torch.cuda", "graph"): _GRAPHS,
    ("torch.cuda", "graph_pool_handle"): _GRAPHS,
    ("torch.cuda", "make_graphed_callables"): _GRAPHS,
    ("torch.distributed.fsdp", "FullyShardedDataParallel"): (
        "is FSDP1, whose flat parameters are not followed; use fully_shard (FSDP2)"
    ),
    ("torch.distributed.fsdp", "CPUOffloadPolicy"): (
        "keeps parameters on the host, and the copies from and to it are not in a recorded step; leave offload_policy "
        "out; `simulate` prices offload_optimizer of a plan"
    ),
    ("torch.utils.cpp_extension", "load"): _BUILT,
    ("torch.utils.cpp_extension", "load_inline"): _BUILT,
    (_RING, "_templated_ring_attention"): (
        "passes keys and values round a ring (context_parallel), which is not followed; `simulate --cp` prices plans "
        "with context parallelism"
    ),
}
TRITON = "triton.runtime.jit"  # looked for where a script has imported it
LAUNCHED = f"is a Triton kernel, which cannot be followed; {_IN_ITS_PLACE}"


def _raising(call: str, why: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotModelled(f"{call}{user_line()} {why}")

    return refuse


def _patched(module: str, name: str, why: str) -> Any:
    holder = importlib.import_module(module)
    call = f"{module}.{name}"
    found = getattr(holder, name, None)
    if not isinstance(found, type):
        return mock.patch.object(holder, name, _raising(call, why), create=True)
    maker = "__new__" if "__new__" in vars(found) else "__init__"
    return mock.patch.object(found, maker, _raising(call, why))


@contextlib.contextmanager
def refused_calls(job: Job) -> Iterator[None]:
    """While it lasts, calls that cannot be followed raise, and spawned functions run for the one rank of `job`."""
    with contextlib.ExitStack() as stack:
        for (module, name), why in REFUSED.items():
            stack.enter_context(_patched(module, name, why))
        spawn = _spawned(job)
        stack.enter_context(mock.patch.object(torch.multiprocessing, "spawn", spawn))
        stack.enter_context(mock.patch.object(sys.modules["torch.multiprocessing.spawn"], "spawn", spawn))
        stack.enter_context(_triton())
        yield


def _spawned(job: Job) -> Callable[..., None]:
    """`torch.multiprocessing.spawn`, of whose processes the one of this rank runs."""

    def spawn(fn: Callable[..., None], args: Any = (), nprocs: int = 1, *_more: Any, **_kwargs: Any) -> None:
        if nprocs == job.world_size:
            place = job.rank
        elif nprocs == min(job.gpus_per_node, job.world_size):
            place = job.local_rank
        else:
            raise InvalidInput(
                f"torch.multiprocessing.spawn{user_line()} starts {nprocs} processes, but --world-size is "
                f"{job.world_size} with {job.gpus_per_node} to a node; let them be equal"
            )
        fn(place, *args)

    return spawn


@contextlib.contextmanager
def _triton() -> Iterator[None]:
    """Kernels of Triton are refused by name when they are launched; PyTorch has imported it where it is installed."""
    try:
        kernels = importlib.import_module(TRITON)
    except ImportError:
        yield
        return

    def run(kernel: Any, *_args: Any, **_kwargs: Any) -> Any:
        where = user_line(Path(str(kernels.__file__)).parent)
        raise NotModelled(f"{getattr(kernel, '__name__', 'what is launched')}{where} {LAUNCHED}")

    with mock.patch.object(kernels.JITFunction, "run", run):
        yield
