"""`python -m benchmarks.fuzz [INPUT ...] --seconds 600 --seed N`: break every input that commands read, and see.

A case is a valid input with something changed in it, and the command that reads it, run in a process of its own. An
answer or one clear line is well, and so is long work that a changed word named (`reproduce phaze`), which is cut short.
A traceback, a hang, memory beyond the limit or a muddled line is a finding, whose files are kept in `--folder` with the
command beside them. `--record` writes what was seen to benchmarks/results.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bar import REPOSITORY
from benchmarks.fuzz.child import import_everything
from benchmarks.fuzz.inputs import inputs
from benchmarks.fuzz.runs import Tally, Tell, fuzzed
from benchmarks.stamp import RESULTS, newest_result, result_file, stamp
from dovetail.units import MEBI

WHAT = "fuzz"  # as the files of results are called
FINDINGS = REPOSITORY / "build" / "fuzz"
TOLD_EVERY_S = 30.0  # where nobody watches; twice a second where somebody does
WATCHED_EVERY_S = 0.5
Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if sys.platform != "linux":
        raise SystemExit("cases are forked and their memory limited, which only Linux does well")
    import_everything()
    found = [_apart(partial(_one, name, options)) for name in options.names or inputs.names()]
    if options.record:
        print(f"written to {written(found)}", file=sys.stderr)
    print(json.dumps(found, indent=2) if options.json else table(found))
    return 1 if any(one["findings"] for one in found) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description="break every input that commands read, and see how they end"
    )
    parser.add_argument("names", nargs="*", metavar="INPUT", help=f"only these of: {', '.join(inputs.names())}")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each input (default: 600)")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="of each input at the most")
    parser.add_argument("--seed", type=int, default=1, help="the same seed tries the same cases (default: 1)")
    parser.add_argument("--folder", type=Path, default=FINDINGS, help="where files of findings are kept")
    parser.add_argument("--record", action="store_true", help="write what was seen to benchmarks/results")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in inputs]:
        parser.error(f"no input is named {', '.join(unknown)}; known: {', '.join(inputs.names())}")
    return options


def _one(name: str, options: argparse.Namespace) -> Record:
    tally = fuzzed(
        inputs[name], seed=options.seed, limit_s=options.seconds, most_cases=options.cases, folder=options.folder,
        tell=_progress(),
    )  # fmt: skip
    return tally.record() | stamp()


def _apart(work: Callable[[], Record]) -> Record:
    """What `work` returns, done in a process of its own: what one input imports beside weighs on no other."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as out:
                json.dump(work(), out)
            code = 0
        except SystemExit as error:
            print(error, file=sys.stderr)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(1)
    record: Record = json.loads(text)
    return record


def _progress() -> Tell:
    """A line that is written over where somebody watches, and one now and then where nobody does."""
    is_watched = sys.stderr.isatty()
    every_s, told_s = WATCHED_EVERY_S if is_watched else TOLD_EVERY_S, time.monotonic()

    def tell(tally: Tally) -> None:
        nonlocal told_s
        if time.monotonic() - told_s < every_s:
            return
        told_s = time.monotonic()
        line = f"{tally.name}: {tally.wall_s:.0f} s, {tally.cases:,} cases, {len(tally.findings)} findings"
        print(f"\r{line}   " if is_watched else line, end="" if is_watched else "\n", file=sys.stderr, flush=True)

    return tell


def table(found: Sequence[Record]) -> str:
    """A line for each input, and one for each finding."""
    head = ("input", "cases", "seconds", "answered", "refused", "peak", "slowest", "findings")
    rows = [head]
    for one in found:
        rows.append(
            (one["name"], f"{one['cases']:,}", f"{one['wall_s']:.0f}", f"{one['answered']:,}", f"{one['refused']:,}",
             f"{one['peak_bytes'] / MEBI:.0f} MiB", f"{one['slowest_s']:.1f} s", str(len(one["findings"])))
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for one in found:
        lines += [
            f"{one['name']}: {known['kind']}, {known['count']} times: {known['where']}\n"
            f"    {known['folder']}: {known['command']}"
            for known in one["findings"]
        ]
    return "\n".join(lines)


def written(found: Sequence[Record]) -> Path:
    """The file of this machine and day, with what was seen of each input last."""
    with _alone():
        file, newest = result_file(WHAT), newest_result(WHAT)
        known = json.loads(newest.read_text(encoding="utf-8")) if newest else []
        merged = joined(known, found)
        file.write_text(json.dumps([merged[name] for name in sorted(merged)], indent=2) + "\n", encoding="utf-8")
    return file


@contextmanager
def _alone() -> Iterator[None]:
    """While nobody else writes records: runs of two inputs may end together."""
    folder = os.open(RESULTS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def joined(known: Sequence[Record], found: Sequence[Record]) -> dict[str, Record]:
    """By input, what was `found` over what was `known`; a finding stands until its seed is run again without it."""
    merged = {one["name"]: one for one in known}
    for one in found:
        before = merged.get(one["name"], {"findings": []})
        own = f"{one['name']}-{one['seed']}-"
        left = [known for known in before["findings"] if not known["folder"].startswith(own)]
        merged[one["name"]] = one | {"findings": [*one["findings"], *left]}
    return merged


if __name__ == "__main__":
    sys.exit(main())
