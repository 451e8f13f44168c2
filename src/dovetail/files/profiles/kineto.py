"""The trace of PyTorch's profiler (Kineto, `export_chrome_trace`): its events as columns, read one at a time.

Microseconds in the file, seconds here. Only what tells of operators is kept, so that a long trace stays small: calls
that are equal are kept once. Names are as the file has them, for they are many; they are cleaned where shown.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.files.profiles.aten import is_known
from dovetail.files.text import one_line
from dovetail.units import MICRO

EVENTS = "traceEvents"
MAX_EVENTS = 6_000_000  # kept: some 60 bytes each
MAX_KINDS = 500_000  # of calls and kernels that differ
MAX_MOMENT_US = 1e18  # style: a bound, far beyond the microseconds since 1970
MAX_DURATION_S = 1e6  # style: a bound, eleven days; more is no duration
_ON_HOST = ("cpu_op", "user_annotation")
_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime")
_STEP = "ProfilerStep#"
# A dtype of a message as PyTorch prints it, in bytes.
_ELEMENT_BYTES = {
    "Float": 4, "BFloat16": 2, "Half": 2, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Char": 1, "Bool": 1,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostCall:
    """What equal calls on the host have in common; arguments are kept of operators that we know."""

    name: str
    is_operator: bool  # else a span that user code named
    is_recorded: bool  # by autograd, on the way forward
    dims: str = ""
    types: str = ""
    values: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What equal kernels have in common; of a collective, its message."""

    name: str
    stream: str
    is_copy: bool = False  # between host and device
    collective: str = ""
    message_bytes: float = 0.0
    num_ranks: int = 0


@dataclass(slots=True)
class Events:
    """Columns of a trace. Calls on the host are numbered by `External id`, and kernels carry it."""

    begin_s: array[float] = field(default_factory=lambda: array("d"))
    took_s: array[float] = field(default_factory=lambda: array("d"))
    thread: array[int] = field(default_factory=lambda: array("q"))
    id: array[int] = field(default_factory=lambda: array("q"))
    call: array[int] = field(default_factory=lambda: array("q"))
    kernel_s: array[float] = field(default_factory=lambda: array("d"))
    kernel_begin_s: array[float] = field(default_factory=lambda: array("d"))  # empty where a trace has no clock
    kernel_id: array[int] = field(default_factory=lambda: array("q"))
    kernel_launch: array[int] = field(default_factory=lambda: array("q"))
    kernel: array[int] = field(default_factory=lambda: array("q"))
    launched_by: dict[int, int] = field(default_factory=dict)
    calls: dict[HostCall, int] = field(default_factory=dict)
    kernels: dict[Kernel, int] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)  # begin and end on the host
    devices: tuple[str, ...] = ()
    num_ranks: int = 1

    def take(self, key: str, value: Any) -> None:
        """One member of the trace, or one event of it."""
        if key == EVENTS:
            if isinstance(value, dict) and value.get("ph") == "X":
                self._event(value)
        elif key == "deviceProperties" and isinstance(value, list):
            names = (one_line(str(one.get("name", ""))) for one in value if isinstance(one, dict))
            self.devices = tuple(dict.fromkeys(name for name in names if name))
        elif key == "distributedInfo" and isinstance(value, dict):
            self.num_ranks = max(1, _whole(value.get("world_size"), 1))

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("cat")
        if kind not in _ON_HOST and kind not in _ON_DEVICE and kind not in _LAUNCHES:
            return
        given = event.get("args")
        args: dict[str, Any] = given if isinstance(given, dict) else {}
        name = event.get("name")
        if not isinstance(name, str):
            raise InvalidInput(f"an event of {kind} has no name")
        if kind in _LAUNCHES:
            self.launched_by[_whole(args.get("correlation"))] = _id(args)
        elif kind in _ON_HOST:
            self._host(event, name, args, is_operator=kind == "cpu_op")
        else:
            self._device(event, name, args, is_copy=kind == "gpu_memcpy")
        if len(self.call) + len(self.kernel) + len(self.launched_by) > MAX_EVENTS:
            raise InvalidInput(f"a trace has at most {MAX_EVENTS:,} operators and kernels; profile fewer steps")
        if len(self.calls) + len(self.kernels) > MAX_KINDS:
            raise InvalidInput(f"a trace has at most {MAX_KINDS:,} shapes; profile fewer steps")

    def _host(self, event: dict[str, Any], name: str, args: dict[str, Any], *, is_operator: bool) -> None:
        if name.startswith(_STEP):
            begin_s = _moment_s(event, "ts", name)
            self.steps.setdefault(name, (begin_s, begin_s + _duration_s(event, name)))
        is_recorded = "Sequence number" in args and not _whole(args.get("Fwd thread id"))
        recorded = ("Input Dims", "Input type", "Concrete Inputs") if is_operator and is_known(name) else ()
        call = HostCall(name, is_operator, is_recorded, *(_text(args.get(key)) for key in recorded))
        self.begin_s.append(_moment_s(event, "ts", name))
        self.took_s.append(_duration_s(event, name))
        self.thread.append(self.threads.setdefault(f"{event.get('pid')}/{event.get('tid')}", len(self.threads)))
        self.id.append(_id(args))
        self.call.append(self.calls.setdefault(call, len(self.calls)))

    def _device(self, event: dict[str, Any], name: str, args: dict[str, Any], *, is_copy: bool) -> None:
        between = is_copy and any(word in name for word in ("HtoD", "DtoH", "HostToDevice", "DeviceToHost"))
        stream = f"{_whole(args.get('device'))}:{_whole(args.get('stream'))}"
        kernel = Kernel(name, stream, between, *(_message(args) if name.startswith("nccl") else ()))
        self.kernel_begin_s.append(_moment_s(event, "ts", name))
        self.kernel_s.append(_duration_s(event, name))
        self.kernel_id.append(_id(args))
        self.kernel_launch.append(_whole(args.get("correlation")))
        self.kernel.append(self.kernels.setdefault(kernel, len(self.kernels)))


def _message(args: dict[str, Any]) -> tuple[str, float, int]:
    """A collective's name, the larger side of its message, and its ranks; nothing where these are not recorded."""
    name, dtype = args.get("Collective name"), str(args.get("dtype"))
    elements = max(_whole(args.get("In msg nelems")), _whole(args.get("Out msg nelems")))
    num_ranks = _whole(args.get("Group size"))
    if not isinstance(name, str) or dtype not in _ELEMENT_BYTES or elements < 1 or num_ranks < 1:
        return "", 0.0, 0
    return name, float(elements * _ELEMENT_BYTES[dtype]), num_ranks


def _id(args: dict[str, Any]) -> int:
    return _whole(args.get("External id", args.get("external id")))


def _whole(value: object, otherwise: int = 0) -> int:
    return value if type(value) is int and abs(value) < 2**62 else otherwise


def _text(value: object) -> str:
    return "" if value is None else repr(value)


def _duration_s(event: dict[str, Any], name: str) -> float:
    took_s = _moment_s(event, "dur", name)
    if not 0 <= took_s <= MAX_DURATION_S:
        message = f"a duration must not be negative, nor above {MAX_DURATION_S:g} s"
        raise InvalidInput(f"{message}; {one_line(name)[:80]} has dur {event['dur']!r:.40}")
    return took_s


def _moment_s(event: dict[str, Any], key: str, name: str) -> float:
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{key} must be a number; {one_line(name)[:80]} has {value!r:.40}")
    if not abs(value) <= MAX_MOMENT_US:
        message = f"{key} is a number of microseconds, {MAX_MOMENT_US:g} at the most"
        raise InvalidInput(f"{message}; {one_line(name)[:80]} has {value!r:.40}")
    return value * MICRO
