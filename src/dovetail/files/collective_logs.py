"""What nccl-tests, rccl-tests and OSU's micro-benchmarks print, as a table of measured collectives.

A log need not be whole: rows that were cut short, are wrong or cannot be read are named beside those that can.
Ranks, nodes and GPUs are in the header lines of nccl-tests; what a log does not say may be added to it as a line
`# ranks: 8`, `# nodes: 2`, `# nics: 400 GB/s`, `# platform: H100` or `# collective: all_gather`.
The output of several runs in one file is read run by run, each with the ranks and the collective of its own header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from dovetail.accuracy.measurements import Measurements
from dovetail.comm.library.timing import ALL_GATHER, ALL_TO_ALL, OPERATIONS, operation_of
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.text import one_line
from dovetail.units import quantity

COLUMNS = ("log_platform", "log_collective", "log_ranks", "log_nodes", "log_nics", "buffers", "size_bytes", "time_us")
OUT_OF_PLACE, IN_PLACE, DEVICE_BUFFERS = "out-of-place", "in-place", "device"
BUFFER_NAMES = (OUT_OF_PLACE, IN_PLACE)
MAX_COUNT = 10**6  # style: a bound on ranks and nodes
RATIO_TOLERANCE_FRAC = 0.03  # of bus bandwidth over algorithm bandwidth, which are printed with few digits
_MARKS = (
    "# nThread",
    "nccl-tests version",
    "rccl-tests",
    "out-of-place",
    "# Avg bus bandwidth",
    "# OSU ",
    "(elements)",
)
_RANK_LINE = re.compile(r"#?\s*Rank\s+(\d+)\s+.*?\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)")
_OWN_LINE = re.compile(r"#\s*(ranks|nodes|nics|platform|collective)\s*[:=]\s*(.*\S)", re.IGNORECASE)
_NUM_PROCESSES = re.compile(r"\b(?:mpirun|mpiexec|srun|prun)\b.*?\s(?:-np|-n|--ntasks(?:=|\s))\s*(\d+)")
_NUM_NODES = re.compile(r"\bsrun\b.*?\s(?:-N\s*|--nodes[=\s])(\d+)")
_DATA_ROW = re.compile(r"[+-]?[0-9][0-9.eE+]*(?:\s|$)")
_THREADS_GPUS = re.compile(r"nThreads?:?\s+(\d{1,6})\s+nGpus:?\s+(\d{1,6})")
_TIME_UNIT = re.compile(r"\((?:elements|count)\).*?\(([^()/]+)\)|latency\s*\(([^()]+)\)", re.IGNORECASE)
_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_OSU_TITLE = re.compile(r"#\s*OSU\s+(\S+)\s+(.+?)\s+Latency Test", re.IGNORECASE)
_FAILURE = re.compile(
    r"Test (?:\w+ )?failure|Segmentation fault|MPI_ABORT|Abort\(|CANCELLED|unhandled \w+ error", re.IGNORECASE
)
_PREFIX = re.compile(r"(?:\[\d+,\d+\](?:<\w+>)?:?|\d+:)\s*(?=\S)")  # of a rank: mpirun --tag-output, srun --label
_FILE_NAMES = ("all_reduce", "allreduce", "all_gather", "allgather", "reduce_scatter", "alltoall", "all_to_all")


@dataclass(slots=True)
class _Log:
    """What was read of a log so far."""

    hosts: dict[int, str] = field(default_factory=dict)
    products: dict[int, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    collective: str = ""
    num_processes: int = 0
    num_nodes: int = 0
    num_threads_gpus: int = 0
    is_osu: bool = False
    on_host: bool = False
    time_unit: str = "us"
    columns: tuple[str, ...] = ()
    ratios: list[float] = field(default_factory=list)
    redops: set[str] = field(default_factory=set)
    rows: list[tuple[int, str, str, str]] = field(default_factory=list)  # line, buffers, bytes, microseconds
    bad: list[tuple[int, str]] = field(default_factory=list)


def is_collective_log(text: str) -> bool:
    """Whether a text looks like one of these logs, whatever its file is called; a CSV table does not."""
    return any(mark in text for mark in _MARKS)


def log_measurements(text: str, file: Path) -> Measurements:
    """The rows of a log, one for out-of-place and one for in-place buffers; raises where the log has none."""
    shown = one_line(str(file))
    logs = [_read_run(lines) for lines in _runs([_unlabelled(line) for line in text.splitlines()])]
    bad = tuple(one for log in logs for one in log.bad)
    logs = [log for log in logs if log.rows]
    if not logs:
        where = f"{shown}:{bad[0][0]}" if bad else shown
        raise InvalidInput(bad[0][1] if bad else "the log has no row of measurements", where)
    _share_own(logs)
    facts = [_facts(log, file, shown) for log in logs]
    _check_one_platform({platform for platform, *_ in facts}, shown)
    return Measurements(
        name=one_line(file.name.removesuffix(file.suffix)),
        shown=shown,
        columns=COLUMNS,
        rows=tuple((*own, *row) for own, log in zip(facts, logs, strict=True) for _, *row in log.rows),
        lines=tuple(line for log in logs for line, *_ in log.rows),
        uneven=bad,
    )


def _unlabelled(line: str) -> str:
    return _PREFIX.sub("", line.strip(), count=1) if _PREFIX.match(line.strip()) else line.strip()


def _runs(lines: list[str]) -> list[list[tuple[int, str]]]:
    """The numbered lines of each run: a header after rows begins another, with what stands between them."""
    runs: list[list[tuple[int, str]]] = [[]]
    after_rows: list[tuple[int, str]] = []
    has_rows = False
    for numbered in enumerate(lines, start=1):
        if _DATA_ROW.match(numbered[1]):
            runs[-1] += [*after_rows, numbered]
            after_rows, has_rows = [], True
            continue
        after_rows.append(numbered)
        if has_rows and (_THREADS_GPUS.search(numbered[1]) or _OSU_TITLE.match(numbered[1])):
            runs.append([])
            has_rows = False
    runs[-1] += after_rows
    return runs


def _read_run(lines: list[tuple[int, str]]) -> _Log:
    log = _Log()
    for number, line in lines:
        _read_line(log, line, number)
    return log


def _share_own(logs: list[_Log]) -> None:
    """Lines that were added to a log hold for all its runs, as far as a run does not say something else itself."""
    shared: dict[str, str] = {}
    for log in logs:
        shared = {**log.own, **shared}
    for log in logs:
        says = {
            "collective": bool(log.collective),
            "ranks": bool(log.hosts or log.num_processes or log.num_threads_gpus),
            "nodes": bool(log.hosts or log.num_nodes),
        }
        log.own = {**{key: word for key, word in shared.items() if not says.get(key)}, **log.own}


def _check_one_platform(products: set[str], shown: str) -> None:
    if len(products) > 1:
        raise InvalidInput(f"the log is of several kinds of GPU, {', '.join(sorted(products))[:100]}", shown)


def _read_line(log: _Log, stripped: str, number: int) -> None:
    if _DATA_ROW.match(stripped):
        (_read_osu_row if log.is_osu else _read_row)(log, stripped.split(), number)
        return
    if ranked := _RANK_LINE.match(stripped):
        rank, host, product = int(ranked[1][:9]), ranked[2], ranked[3].strip()
        log.hosts[rank], log.products[rank] = host, product
    elif own := _OWN_LINE.fullmatch(stripped):
        log.own[own[1].lower()] = own[2]
    elif title := _OSU_TITLE.match(stripped):
        log.is_osu, log.collective = True, title[2].replace("Personalized Exchange", "")
        log.on_host = not re.search(r"CUDA|ROCM|NCCL|RCCL|XCCL|HIP", title[1], re.IGNORECASE)
    elif "algbw" in stripped and "time" in stripped:
        log.columns = tuple(stripped.lstrip("# ").split())
    elif unit := _TIME_UNIT.search(stripped):
        log.time_unit = (unit[1] or unit[2]).strip()
    if (tested := _TEST.search(stripped)) and (log.rows or "concluded" not in stripped):  # of the run before
        log.collective = (log.collective if log.rows else "") or tested[1]
    if started := _THREADS_GPUS.search(stripped):
        log.num_threads_gpus = int(started[1]) * int(started[2])
    if processes := _NUM_PROCESSES.search(stripped):
        log.num_processes = int(processes[1][:9])
    if nodes := _NUM_NODES.search(stripped):
        log.num_nodes = int(nodes[1][:9])
    if _FAILURE.search(stripped):
        log.bad.append((number, f"the run failed: {one_line(stripped)[:80]}"))


def _read_row(log: _Log, cells: list[str], number: int) -> None:
    """One line of nccl-tests: bytes, count, type, reduction, root, then time and bandwidths twice."""
    names = log.columns or ("size", "count", "type", "redop", "root", *(("time", "algbw", "busbw", "#wrong") * 2))
    begin = names.index("time")
    timed, words = names[begin:], len(cells) - (len(names) - begin)
    if not 2 <= words <= begin:
        return log.bad.append((number, f"a row has {len(names)} columns; got {len(cells)}"))
    values = cells[words:]
    log.redops.update(word for word in cells[2:words] if word in ("sum", "prod", "min", "max", "avg", "none"))
    starts = [place for place, name in enumerate(timed) if name == "time"]
    for buffers, start, end in zip(BUFFER_NAMES, starts, [*starts[1:], len(timed)], strict=False):
        found = dict(zip(timed[start:end], values[start:end], strict=True))
        wrong = found.get("#wrong", found.get("error", "0"))
        if problem := _problem(cells[0], found["time"], wrong):
            log.bad.append((number, f"{buffers}: {problem}"))
            continue
        log.rows.append((number, buffers, cells[0], found["time"]))
        algorithm, bus = _number(found.get("algbw", "")), _number(found.get("busbw", ""))
        if algorithm >= 1 and bus > 0:
            log.ratios.append(bus / algorithm)
    return None


def _read_osu_row(log: _Log, cells: list[str], number: int) -> None:
    if len(cells) < 2:
        return log.bad.append((number, f"a row has a size and a latency; got {len(cells)} columns"))
    if problem := _problem(cells[0], cells[1], "0"):
        return log.bad.append((number, problem))
    return log.rows.append((number, DEVICE_BUFFERS, cells[0], cells[1]))


def _problem(size: str, time: str, wrong: str) -> str:
    """Why a row cannot be compared, empty where it can."""
    if not _number(size) > 0 or not re.fullmatch(r"\d{1,15}", size):
        return f"size must be a whole number of bytes above 0; got {one_line(size)[:40]!r}"
    if not _number(time) > 0:
        return f"time must be a number above 0; got {one_line(time)[:40]!r}"
    if wrong not in ("N/A", "n/a") and not _number(wrong) <= 1e-3:  # style: the largest error that old versions allow
        return f"{one_line(wrong)[:40]} elements were wrong"
    return ""


def _number(cell: str) -> float:
    """A finite number, or what compares as false to everything."""
    if re.fullmatch(r"[+-]?(?:\d{1,18}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?", cell):
        return float(cell)
    return float("nan")


def _facts(log: _Log, file: Path, shown: str) -> tuple[str, str, str, str, str]:
    """Platform, collective, ranks, nodes and NICs of a log; one line that asks for what it does not say."""
    if log.time_unit not in ("us", "usec"):
        raise InvalidInput(f"times of a log are in us, as the tools print them; got {log.time_unit[:20]!r}", shown)
    ranks = _count(log, "ranks", shown) or len(log.hosts) or log.num_processes or log.num_threads_gpus
    if ranks < 2:
        got = "does not state how many ranks ran" if not ranks else "is of one rank"
        raise InvalidInput(f"the log {got}; a collective has 2 or more, add a line such as '# ranks: 8'", shown)
    if log.hosts and sorted(log.hosts) != list(range(len(log.hosts))) and "ranks" not in log.own:
        missing = next(rank for rank in range(len(log.hosts)) if rank not in log.hosts)
        raise InvalidInput(f"the log lists {len(log.hosts)} ranks without rank {missing}; add '# ranks: N'", shown)
    nodes = _count(log, "nodes", shown) or len(set(log.hosts.values())) or log.num_nodes or 1
    if ranks % nodes:
        raise InvalidInput(f"{ranks} ranks are not the same number on each of {nodes} nodes", shown)
    nics_bytes_per_s = 0.0
    if nodes > 1:
        if "nics" not in log.own:
            rule = f"a log over {nodes} nodes needs the bandwidth of a node's NICs in one direction"
            raise InvalidInput(f"{rule}; add a line such as '# nics: 400 GB/s'", shown)
        try:
            nics_bytes_per_s = quantity(log.own["nics"], "bytes_per_s")
        except DovetailError as error:
            raise InvalidInput(error.message, f"{shown}: # nics") from None
    products = sorted({product for product in log.products.values() if product})
    if "platform" not in log.own:
        _check_one_platform(set(products), shown)
    platform = log.own.get("platform") or (products[0] if products else "")
    operation = _operation(log, file, ranks, shown)
    if log.is_osu and operation in (ALL_GATHER, ALL_TO_ALL):  # OSU counts what goes to or comes from each rank
        log.rows = [(line, buffers, str(int(size) * ranks), time) for line, buffers, size, time in log.rows]
    return platform, operation, str(ranks), str(nodes), repr(nics_bytes_per_s)


def _count(log: _Log, key: str, shown: str) -> int:
    word = log.own.get(key, "0")
    if not re.fullmatch(r"\d{1,9}", word) or int(word) > MAX_COUNT:
        raise InvalidInput(f"{key} must be a whole number; got {one_line(word)[:40]!r}", f"{shown}: # {key}")
    return int(word)


def _operation(log: _Log, file: Path, ranks: int, shown: str) -> str:
    """The collective: as the log or the file's name says, or as bus bandwidth over algorithm bandwidth tells."""
    if log.on_host:
        raise NotModelled("the log is of buffers in host memory; only those on devices are modelled", shown)
    if named := log.own.get("collective") or log.collective:
        try:
            return operation_of(named)
        except NotModelled as error:
            raise NotModelled(error.message, shown) from None
    stem = file.name.lower().replace("-", "_")
    if in_name := next((name for name in _FILE_NAMES if name in stem), ""):
        return operation_of(in_name)
    middle = sorted(log.ratios)[len(log.ratios) // 2] if log.ratios else 0.0
    is_reduction = bool(log.redops - {"none"})
    for operation, ratio in (("all-reduce", 2 * (ranks - 1) / ranks), ("reduce-scatter", (ranks - 1) / ranks)):
        if is_reduction and abs(middle / ratio - 1) < RATIO_TOLERANCE_FRAC:
            return operation
    example = "call the file all_gather_perf.txt, or add a line such as '# collective: all_gather'"
    raise InvalidInput(f"the log does not state which collective ran ({', '.join(OPERATIONS)}); {example}", shown)
