"""Workers of a Dask cluster: tasks go through its scheduler, which gives those of a dead worker to another one."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pickle
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic

from dovetail.engine import EngineFailed, Q, R, T
from dovetail.errors import InvalidInput
from dovetail.plugins import Plugin, blamed, load_all, loaded_plugins
from dovetail.store.version import PLUGINS, model_version
from dovetail.units import MEBI

ANSWER_S = 3.0  # of each step of meeting a scheduler; a person waits for it
MOST_GREETING_BYTES = 1 * MEBI  # far above what schedulers greet with, far below what words read as a number
ALONE_S = 60.0  # without a single worker, until a search gives up; Dask's nannies start another in some seconds
LOOK_S = 2.0  # between two looks at who is there
NUM_AHEAD = 4  # tasks by thread of a worker, that may be done before the one whose result is wanted
PORT = 8786  # of a scheduler by default (Dask)
START = "start one with: dask scheduler, and give the address that it prints"
NO_DASK = "--dask needs Dask; install it with: pip install 'dovetail-codesign[cluster]'"

_ADDRESS = re.compile(r"(?P<way>(tcp|tls)://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?")


@contextmanager
def on_cluster(question: Q, address: str) -> Iterator[Cluster[Q]]:
    """The Dask cluster whose scheduler is at `address`, all of its workers of this version of the model."""
    check_cluster(address)
    dask: Any = importlib.import_module("distributed")
    for name in [*logging.Logger.manager.loggerDict]:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are reported in one line
    client = _connected(dask, address)
    try:
        yield Cluster(dask, client, address, question)
    finally:
        client.close(timeout=LOOK_S)


def _connected(dask: Any, address: str) -> Any:
    """A client of a scheduler with workers that give the numbers that this process would."""
    try:
        client = dask.Client(address, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError):  # TimeoutError is an OSError
        raise InvalidInput(f"what listens at {address} is no Dask scheduler; {START}", "--dask") from None
    try:
        _check_workers(client, address)
    except BaseException:
        client.close(timeout=LOOK_S)
        raise
    return client


def check_cluster(address: str) -> None:
    """Raises where no scheduler is at an address; Dask itself would try again for long, or for ever."""
    if importlib.util.find_spec("distributed") is None:
        raise InvalidInput(NO_DASK)
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidInput(f"the address of a Dask scheduler is such as tcp://host:8786; got {address!r}", "--dask")
    try:
        greeting = _greeting(found["host"].strip("[]"), int(found["port"] or PORT), is_secret=found["way"] == "tls://")
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"no Dask scheduler answers at {address} ({why}); {START}", "--dask") from None
    if not 0 < int.from_bytes(greeting, "little") < MOST_GREETING_BYTES:
        raise InvalidInput(f"what listens at {address} is no Dask scheduler; {START}", "--dask")


def _greeting(host: str, port: int, *, is_secret: bool) -> bytes:
    """The length of the message that a scheduler begins with: eight bytes, the least of them first."""
    with socket.create_connection((host, port), timeout=ANSWER_S) as link:
        return b"\1" if is_secret else link.recv(8)


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=LOOK_S)
    except TimeoutError:
        message = f"the Dask cluster at {address} has no workers"
        raise InvalidInput(f"{message}; start some with: dask worker {address} --nthreads 1") from None
    for worker, found in client.run(partial(_version, loaded_plugins()), on_error="return").items():
        _check_version(worker, str(found) if not isinstance(found, BaseException) else f"none ({found})")


def _check_version(worker: str, found: str, expected: str = "") -> None:
    expected = expected or model_version()
    if found != expected:
        message = f"worker {worker} has Dovetail {found}, and this is {expected}: their numbers must not mix"
        is_plugins = found.partition(PLUGINS)[0] == expected.partition(PLUGINS)[0]
        way_out = "name the same plugins" if is_plugins else "install the same on both"
        raise InvalidInput(f"{message}; {way_out} and start the workers again")


class Cluster(Generic[Q]):
    """A client with a question that the scheduler can give to any worker, also to one that comes later."""

    def __init__(self, dask: Any, client: Any, address: str, question: Q) -> None:
        self._dask, self._client, self._address = dask, client, address
        self._num_threads, self._looked_s = 1, -LOOK_S
        payload = pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
        # a task, not scattered data: the scheduler makes it again where all workers that had it are gone
        self._question = client.submit(_question, payload, loaded_plugins(), pure=False)

    def map(self, act: Callable[[Q, T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        left = enumerate(tasks)
        pending: deque[tuple[int, Any]] = deque()
        try:
            while True:
                for place, task in _up_to(left, self._num_ahead() - len(pending)):
                    pending.append((place, self._submitted(act, task)))
                if not pending:
                    return
                place, future = pending[0]
                result = self._result(place, future)
                pending.popleft()
                yield result
        finally:
            for _, future in pending:
                future.release()

    def _submitted(self, act: Callable[[Q, T], R], task: T) -> Any:
        try:
            return self._client.submit(_acted, act, self._question, task, model_version(), loaded_plugins(), pure=False)
        except (OSError, RuntimeError, CancelledError):
            raise self._gone() from None

    def _num_ahead(self) -> int:
        """By the workers of now, looked up from time to time."""
        if time.monotonic() >= self._looked_s + LOOK_S:
            self._num_threads = max(1, sum(worker["nthreads"] for worker in self._workers().values()))
            self._looked_s = time.monotonic()
        return NUM_AHEAD * self._num_threads

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1).get("workers", {})
        return found

    def _result(self, place: int, future: Any) -> Any:
        alone_s = 0.0
        while True:
            try:
                return future.result(timeout=LOOK_S)
            except TimeoutError:
                alone_s = 0.0 if self._workers() else alone_s + LOOK_S
                if self._client.status not in ("running", "connecting"):
                    raise self._gone() from None
                if alone_s >= ALONE_S:
                    message = f"the Dask cluster at {self._address} has had no worker for {ALONE_S:g} s"
                    raise EngineFailed(
                        f"{message}; start some with: dask worker {self._address} --nthreads 1"
                    ) from None
            except self._dask.KilledWorker as error:
                message = (
                    f"part {place + 1} of the work ended every worker that tried it, {error.last_worker.address} last"
                )
                raise EngineFailed(f"{message}; its log says why, most often too little memory") from None
            except (CancelledError, self._dask.comm.CommClosedError):
                raise self._gone() from None

    def _gone(self) -> EngineFailed:
        message = f"the Dask scheduler at {self._address} is gone"
        return EngineFailed(f"{message}; finished rows are kept where --store names a file: start it and repeat")


def _up_to(left: Iterator[T], most: int) -> Iterator[T]:
    for _ in range(most):
        try:
            yield next(left)
        except StopIteration:
            return


# --- what runs in a worker --------------------------------------------------------------------------------------------


def _version(plugins: tuple[Plugin, ...]) -> str:
    load_all(plugins)
    return model_version()


def _question(payload: bytes, plugins: tuple[Plugin, ...]) -> Any:
    load_all(plugins)  # what they registered, and their own values, may be part of it
    return pickle.loads(payload)


def _acted(act: Callable[[Q, T], R], question: Q, task: T, expected: str, plugins: tuple[Plugin, ...] = ()) -> R:
    load_all(plugins)  # of a worker that came later, and got the question from another one
    _check_version("of the cluster", model_version(), expected)
    with blamed():
        return act(question, task)
