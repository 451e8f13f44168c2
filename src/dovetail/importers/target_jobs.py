"""A distributed job as a command names it: a script, a module or a function, run for one process of each kind."""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.text import near_file, one_line, quoted
from dovetail.importers.offline import no_network, offline
from dovetail.importers.targets import CODE, blamed, factory_of
from dovetail.workload.dispatched import DistributedStep, RankStep

if TYPE_CHECKING:
    from dovetail.importers.torch_distributed import RecordedRank
    from dovetail.importers.torch_groups import Job

GPUS_PER_NODE = 8
STEP = 2  # whose moments are there when it begins
MAX_KINDS = 128  # ranks recorded of one job
STDERR = 2  # its file descriptor
ON_HOST = "is not on the expected device"  # what PyTorch says where one operand is on the host and one on the GPU
FIRST_STEP = "the script takes one step, so the one recorded is the first, in which the optimizer makes its moments"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTarget:
    """What every process of a job runs: `train.py`, `file.py:function`, `package.module:function`, or a module.

    `arguments` are the script's own.
    """

    name: str
    is_module: bool = False
    arguments: tuple[str, ...] = ()

    @property
    def is_script(self) -> bool:
        return not self.is_module and self.name.lower().endswith(CODE)


def recorded_job(
    target: JobTarget,
    world_size: int,
    ranks: tuple[int, ...] = (),
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    step: int = STEP,
    tell: Callable[[str], None] = lambda _: None,
) -> DistributedStep:
    """One training step of a job of `world_size` processes, from one process of each kind.

    Kinds are found from rank 0 on: ranks that send to one another, as pipeline stages, are recorded each. Otherwise
    all ranks are taken to do as rank 0. `ranks` names others instead.
    """
    from dovetail.importers.torch_library import torch_library

    torch_library()
    if world_size < 1:
        raise InvalidInput(f"a job has one process or more; got {world_size}", "--world-size")
    for rank in ranks:
        if not 0 <= rank < world_size:
            raise InvalidInput(f"ranks of {world_size} processes are 0 to {world_size - 1}; got {rank}", "--ranks")
    if not hasattr(os, "fork"):
        raise NotModelled("recording a distributed job starts a process by fork, which this system does not have")
    if target.is_script and not Path(target.name).is_file():
        raise InvalidInput(f"there is no file {quoted(target.name)}{near_file(Path(target.name))}")
    importlib.import_module("dovetail.importers.torch_distributed")  # here, or each process would import it again
    found = _Ranks(target, world_size, min(gpus_per_node, world_size), step, tell).recorded(
        ranks or (0,), is_whole=not ranks
    )
    return _whole(found, world_size, has_ranks=bool(ranks))


def _whole(found: dict[int, RecordedRank], world_size: int, *, has_ranks: bool) -> DistributedStep:
    ranks = sorted(found)
    share, rest = divmod(world_size, len(ranks))
    notes = [FIRST_STEP] if any(one.is_first for one in found.values()) else []
    if len(ranks) == 1 and world_size > 1:
        notes.append(f"rank {ranks[0]} was recorded; the other {world_size - 1} are taken to do the same")
    elif len(ranks) < world_size:
        shown = ", ".join(map(str, ranks))
        notes.append(f"ranks {shown} were recorded; each is taken to stand for {share} of {world_size}")
    if rest and not has_ranks:
        notes.append(f"{len(ranks)} kinds of ranks do not divide {world_size} processes evenly")
    return DistributedStep(
        world_size=world_size,
        ranks=tuple(
            RankStep(rank=rank, step=found[rank].step, num_ranks=share + (place < rest))
            for place, rank in enumerate(ranks)
        ),
        mesh=found[ranks[0]].mesh,
        notes=tuple(notes),
    )


class _Ranks:
    """Ranks that run, each in a process of its own, and the objects that they send one another.

    A process of its own has modules and settings of the script new. A rank that waits for an object of one that was not
    started starts it.
    """

    def __init__(
        self, target: JobTarget, world_size: int, gpus_per_node: int, step: int, tell: Callable[[str], None]
    ) -> None:
        self.target, self.world_size, self.gpus_per_node, self.step = target, world_size, gpus_per_node, step
        self.tell = tell
        self.found: dict[int, RecordedRank] = {}
        self._running: dict[Any, tuple[int, int]] = {}  # by pipe: the rank and its process
        self._started: set[int] = set()
        self._sent: dict[tuple[int, int], list[bytes]] = {}
        self._waiting: dict[Any, tuple[int, int, int]] = {}  # by pipe: the object that it waits for
        self._lives = os.pipe()  # which closes when this process ends, however it does

    def recorded(self, ranks: tuple[int, ...], *, is_whole: bool) -> dict[int, RecordedRank]:
        """The steps of `ranks`, and where the job is to be whole also of all that they send to or receive from."""

        pending = list(dict.fromkeys(ranks))
        try:
            while pending or self._running:
                if pending and (not self._running or len(self._waiting) == len(self._running)):
                    self._start(pending.pop(0))
                    continue
                if len(self._waiting) == len(self._running):
                    self._refuse()
                for pipe in connection.wait([one for one in self._running if one not in self._waiting]):
                    rank = self._running[pipe][0]
                    for other in self._heard(pipe, is_whole=is_whole):
                        if other not in self._started and other not in pending:
                            pending.insert(0 if rank not in self.found else len(pending), other)
        finally:
            for pipe in tuple(self._running):
                self._end(pipe, is_killed=True)
            for end in self._lives:
                os.close(end)
        return self.found

    def _start(self, rank: int) -> None:
        if len(self._started) >= MAX_KINDS:
            raise NotModelled(f"more than {MAX_KINDS} ranks send to one another; name some with --ranks")
        from dovetail.importers.torch_groups import Job

        self.tell(f"recording rank {rank} of {self.world_size}")
        self._started.add(rank)
        here, there = multiprocessing.Pipe()
        for one in (sys.stdout, sys.stderr):
            one.flush()
        process = os.fork()
        if process:
            there.close()
            self._running[here] = rank, process
            return
        code = 1
        try:
            here.close()
            gc.freeze()  # what was there before need not be searched each time that the step frees its memory
            self._end_with_parent()
            job = Job(rank=rank, world_size=self.world_size, gpus_per_node=self.gpus_per_node)
            there.send(("end", _ran(self.target, job, self.step, there)))
            code = 0
        except DovetailError as error:
            there.send(("error", (type(error), error.message, error.where)))
        except BaseException:
            traceback.print_exc()
        finally:
            for one in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    one.flush()
            os._exit(code)

    def _end_with_parent(self) -> None:
        """Ends this process as soon as the one that started it has ended, also where that was killed.

        Ctrl-C goes to both; the other then ends this one.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        lives, held = self._lives
        os.close(held)

        def watch() -> None:
            os.read(lives, 1)  # nothing is ever written
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()

    def _heard(self, pipe: Any, *, is_whole: bool) -> tuple[int, ...]:
        """Takes one message of a rank; the ranks that have to run for it come back."""
        rank = self._running[pipe][0]
        try:
            kind, payload = pipe.recv()
        except EOFError:
            status = self._end(pipe)
            raise InvalidInput(f"the process of rank {rank} ended with status {status} before its step did") from None
        if kind == "post":
            source, target, packed = payload
            self._sent.setdefault((source, target), []).append(packed)
            for other, needed in tuple(self._waiting.items()):
                if self._answer(other, needed):
                    del self._waiting[other]
            return ()
        if kind == "fetch":
            if self._answer(pipe, payload):
                return ()
            self._waiting[pipe] = payload
            return (payload[0],)
        self._end(pipe)
        if kind == "error":
            error, message, where = payload
            raise error(message, where)
        self.found[rank] = payload
        return tuple(payload.peers) if is_whole else ()

    def _answer(self, pipe: Any, needed: tuple[int, int, int]) -> bool:
        source, target, place = needed
        found = self._sent.get((source, target), [])
        if place < len(found):
            pipe.send(found[place])
        return place < len(found)

    def _refuse(self) -> None:
        """All that run wait."""
        shown = [
            f"rank {self._running[pipe][0]} waits for an object of rank {needed[0]}"
            for pipe, needed in self._waiting.items()
        ]
        raise InvalidInput(f"the ranks wait for one another without end: {', '.join(shown)}")

    def _end(self, pipe: Any, *, is_killed: bool = False) -> int:
        _, process = self._running.pop(pipe)
        self._waiting.pop(pipe, None)
        pipe.close()
        if is_killed:
            os.kill(process, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _ran(target: JobTarget, job: Job, step: int, pipe: Any) -> RecordedRank:
    """The step of one rank, which exchanges objects with others by `pipe`."""
    from dovetail.importers.torch_distributed import recorded_rank
    from dovetail.importers.torch_groups import Mailbox

    def post(source: int, to: int, packed: bytes) -> None:
        pipe.send(("post", (source, to, packed)))

    def fetch(source: int, to: int, place: int) -> bytes:
        pipe.send(("fetch", (source, to, place)))
        packed: bytes = pipe.recv()
        return packed

    with offline(), no_network(), _silent(), mock.patch.dict(os.environ, job.environment), _arguments(target):
        return recorded_rank(lambda: _run(target), job, Mailbox(post, fetch), step)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What C++ logs while code runs, as DDP does, does not reach the terminal."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(kept, STDERR)
        os.close(kept)


def _run(target: JobTarget) -> None:
    """Runs the code, and takes an end with status 0 as one."""
    from dovetail.importers.torch_failures import raising_line

    name = one_line(target.name)
    with blamed(f"running {name}"):
        try:
            if target.is_module:
                runpy.run_module(target.name, run_name="__main__", alter_sys=True)
            elif target.is_script:
                runpy.run_path(target.name, run_name="__main__")
            else:
                factory_of(target.name)(*target.arguments)
        except RuntimeError as error:
            if ON_HOST not in str(error):
                raise
            where = raising_line(error.__traceback__)
            raise InvalidInput(
                f"{name} runs an operator on a tensor of the host and on one of the GPU{where}; a job "
                "is recorded as it trains on GPUs, and one for CPUs (gloo) is not modelled; move the model and its "
                "inputs to the GPU"
            ) from error
        except SystemExit as end:
            if end.code not in (None, 0):
                raise


@contextlib.contextmanager
def _arguments(target: JobTarget) -> Iterator[None]:
    """The script's own arguments, and the folder that it imports from."""
    folder = str(Path(target.name).resolve().parent) if target.is_script else os.getcwd()
    with (
        mock.patch.object(sys, "argv", [target.name, *target.arguments]),
        mock.patch.object(sys, "path", [folder, *sys.path]),
    ):
        yield
