"""Cases of one input, one after another, until the time is over: how many ended how, and what was found."""

from __future__ import annotations

import gc
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.case import COMMAND_FILE, Case, Seed
from benchmarks.fuzz.changes import broken
from benchmarks.fuzz.child import Ended, import_everything, run, warm_up
from benchmarks.fuzz.inputs import Input
from benchmarks.fuzz.verdict import ANSWERED, finding, is_cut_short

Tell = Callable[["Tally"], None]


@dataclass(slots=True, kw_only=True)
class Found:
    """A finding, the first case that led to it, the folder that has its files, and how many more led to it."""

    kind: str
    where: str
    case: int
    command: str
    folder: str
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has been seen of one input so far."""

    name: str
    seed: int
    cases: int = 0
    wall_s: float = 0.0
    answered: int = 0
    refused: int = 0
    cut_short: int = 0  # long work that a changed word named
    peak_bytes: int = 0
    slowest_s: float = 0.0
    findings: list[Found] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return asdict(self)


def fuzzed(
    one: Input, *, seed: int, limit_s: float, most_cases: int = sys.maxsize, folder: Path, tell: Tell = lambda _: None
) -> Tally:
    """Cases of `one` for `limit_s` seconds or until there were `most_cases`; files of findings are kept in `folder`."""
    import_everything(one.needs)
    with tempfile.TemporaryDirectory(prefix="dovetail-fuzz-seeds-") as made:
        seeds = one.seeds(Path(made))
    gc.collect()
    gc.freeze()  # what children share is not copied by their collections
    tally, begun_s = Tally(name=one.name, seed=seed), time.monotonic()
    met: set[int] = set()
    warm: set[str] = set()
    while tally.cases < most_cases and tally.wall_s < limit_s:
        number, case = drawn(one, seeds, seed, tally.cases)
        if number not in met:
            met.add(number)
            _check(one, seeds[number], warm)
        _count(tally, case, run(case), folder)
        tally.cases += 1
        tally.wall_s = time.monotonic() - begun_s
        tell(tally)
    return tally


def drawn(one: Input, seeds: Sequence[Seed], seed: int, number: int) -> tuple[int, Case]:
    """The case of this number, the same one each time, and which of the seeds it was made of."""
    rng = Random(f"{seed} {one.name} {number}")
    which = rng.randrange(len(seeds))
    return which, broken(seeds[which], seeds, rng)


def _check(one: Input, valid: Seed, warm: set[str]) -> None:
    """The first command of a seed answers it as it is: what is wrong with one would pass for a finding, or hide some.

    It is answered here, so that what is looked up once, or compiled, is there for all cases; other commands are run
    here for that alone, each once.
    """
    for arguments in valid.commands:
        if arguments != valid.commands[0] and arguments[0] in warm:
            continue
        warm.add(arguments[0])
        code = warm_up(Case(files=valid.files, arguments=arguments))
        if code not in ANSWERED and arguments == valid.commands[0]:
            raise SystemExit(
                f"a seed of {one.name} is no valid input: dovetail {shlex.join(arguments)} ends with {code}"
            )


def _count(tally: Tally, case: Case, ended: Ended, folder: Path) -> None:
    tally.peak_bytes = max(tally.peak_bytes, ended.peak_bytes)
    tally.slowest_s = max(tally.slowest_s, ended.cpu_s)
    wrong = finding(ended, case.arguments)
    if wrong is None:
        if is_cut_short(ended, case.arguments):
            tally.cut_short += 1
        elif ended.code in ANSWERED:
            tally.answered += 1
        else:
            tally.refused += 1
        return
    for known in tally.findings:
        if (known.kind, known.where) == (wrong.kind, wrong.where):
            known.count += 1
            return
    kept = folder / f"{tally.name}-{tally.seed}-{tally.cases}"
    case.write(kept)
    command = f"dovetail {shlex.join(case.arguments)}"
    (kept / COMMAND_FILE).write_text(f"{command}\n\n{ended.stderr[-4000:]}", encoding="utf-8", errors="replace")
    tally.findings.append(
        Found(kind=wrong.kind, where=wrong.where, case=tally.cases, command=command, folder=kept.name)
    )
