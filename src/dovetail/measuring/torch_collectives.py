"""Collectives timed by one process for each GPU: calls back to back, as nccl-tests has them."""

from __future__ import annotations

import queue
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from dovetail.errors import InvalidInput
from dovetail.units import MILLI

NUM_WARM, NUM_TIMED, NUM_MEDIAN = 5, 20, 3
ROW_WAIT_S = 120.0  # for one row, the start of all processes included
ELEMENT_BYTES = 2  # bf16
Call = tuple[str, int]  # collective, bytes
Timed = tuple[int, float, str]  # its place among the calls, seconds, and why it failed


def collective_times(num_ranks: int, calls: Sequence[Call], *, is_cpu: bool = False) -> Iterator[Timed]:
    """The place of each in `calls`, its seconds, and why it failed; processes end with the last one."""
    context = processes.get_context("spawn")
    results: Any = context.Queue()
    port = _free_port()
    workers = [
        context.Process(target=_worker, args=(rank, num_ranks, port, tuple(calls), results, is_cpu), daemon=True)
        for rank in range(num_ranks)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in calls:
            yield _next(results, workers)
    finally:
        for worker in workers:
            worker.join(timeout=5)
            if worker.is_alive():
                worker.terminate()


def _next(results: Any, workers: Sequence[Any]) -> Timed:
    """What the first process tells next; raises where one of them is dead or nothing comes."""
    end_s = time.monotonic() + ROW_WAIT_S
    while time.monotonic() < end_s:
        try:
            place, seconds, why_not = results.get(timeout=1.0)
            return int(place), float(seconds), str(why_not)
        except queue.Empty:
            dead = [worker.exitcode for worker in workers if worker.exitcode]
            if dead:
                raise InvalidInput(
                    f"a process of a collective ended with code {dead[0]}; rows so far are kept"
                ) from None
    raise InvalidInput(f"no collective ended within {ROW_WAIT_S:.0f} s; rows so far are kept")


def _worker(rank: int, num_ranks: int, port: int, calls: tuple[Call, ...], results: Any, is_cpu: bool) -> None:
    if not is_cpu:
        torch.cuda.set_device(rank)
    device = "cpu" if is_cpu else f"cuda:{rank}"
    dist.init_process_group(
        "gloo" if is_cpu else "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=num_ranks
    )
    try:
        for place, (collective, size_bytes) in enumerate(calls):
            try:
                seconds, why_not = collective_s(collective, size_bytes, num_ranks, device), ""
            except Exception as error:  # all ranks fail at the same call, or the processes are ended
                seconds, why_not = 0.0, f"{type(error).__name__}: {error!s:.100}"
            if rank == 0:
                results.put((place, seconds, why_not))
    finally:
        dist.destroy_process_group()


def collective_s(collective: str, size_bytes: int, num_ranks: int, device: str) -> float:
    call = _call(collective, size_bytes, num_ranks, device)
    found = []
    for num_calls in (NUM_WARM, *([NUM_TIMED] * NUM_MEDIAN)):
        found.append(_batch_s(call, num_calls, device))
    return sorted(found[1:])[NUM_MEDIAN // 2]


def _batch_s(call: Callable[[], Any], num_calls: int, device: str) -> float:
    dist.barrier()
    if device == "cpu":
        begin_s = time.perf_counter()
        for _ in range(num_calls):
            call()
        return (time.perf_counter() - begin_s) / num_calls
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(num_calls):
        call()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) * MILLI / num_calls


def _call(collective: str, size_bytes: int, num_ranks: int, device: str) -> Callable[[], Any]:
    """One collective of `size_bytes`: of the whole result of an all-gather, and of what each rank brings otherwise."""
    whole = max(size_bytes // ELEMENT_BYTES // num_ranks, 1) * num_ranks
    full = torch.ones(whole, dtype=torch.bfloat16, device=device)
    part = torch.ones(whole // num_ranks, dtype=torch.bfloat16, device=device)
    other = torch.empty_like(full)
    operations: dict[str, Callable[[], Any]] = {
        "all_gather": lambda: dist.all_gather_into_tensor(full, part),
        "all_reduce": lambda: dist.all_reduce(full),
        "alltoall": lambda: dist.all_to_all_single(other, full),
        "reduce_scatter": lambda: _reduce_scatter(part, full),
    }
    return operations[collective]


# PyTorch 2.13 renamed it.
_reduce_scatter: Callable[..., Any] = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
