"""The same commands by the package of a base commit and by today's, answers compared: `python -m benchmarks.replay`.

The base's wheel is built from its commit and installed into a folder that is thrown away. Commands are those of
data/replay_commands.txt in the words of the base; what was renamed since stands in data/renames.json. Every side reads
the examples and inputs of its own commit. Answers must be equal to the last bit (`--exact`) or numbers within a
relative tolerance (`--within 1e-12`) with the same plans, proofs and counts.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.bar import REPOSITORY
from benchmarks.json_diff import Difference, Leaf, Leaves, Renames, differences, flattened, is_sentence, load_renames
from benchmarks.stamp import result_file, stamp

WHAT = "replay"
DATA = REPOSITORY / "benchmarks" / "data"
COMMANDS, INPUTS, RENAMES, BASE = (
    DATA / name for name in ("replay_commands.txt", "replay", "renames.json", "replay_base.txt")
)
READ = ("examples", "benchmarks/data/replay")  # what commands read, by its place in the repository
TIMEOUT_S = 600  # of one command; for what has hung, as compiling on a busy machine takes minutes
NUM_SHOWN = 40
# What differs between two versions of the package, or two runs of one, whatever they compute: versions themselves, keys
# of studies, which are hashes of the version too, and when a study was begun and written to.
ALWAYS_IGNORED = (
    "*.version", "*.model_version", "*.model_versions.*", "studies.*study", "studies.*started", "studies.*written",
    "export.studies.*", "export.left_out.*", "files.*.study", "files.*.written",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended: its exit code, the leaves of what it printed and wrote, its last line of complaint."""

    code: int
    leaves: Mapping[str, Leaf]
    complaint: str = ""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A command whose answers differ: where first, in how many places, and a few of them."""

    command: str
    num_differences: int
    first: str
    others: tuple[str, ...] = ()


def commands(text: str) -> list[str]:
    """The commands of a file: a line each, without empty ones and those that begin with #."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def compared(
    command: str, base: Ran | None, now: Ran | None, *, within: float, renames: Renames, has_sentences: bool = True
) -> Compared | None:
    """What differs between two runs of a command; None where nothing does."""
    if base is None or now is None:
        lacking = "the base" if base is None else "today's side"
        return Compared(command=command, num_differences=1, first=f"{lacking} did not run it")
    if base.code != now.code:
        words = f"{base.complaint or 'no complaint'} / {now.complaint or 'no complaint'}"
        return Compared(
            command=command, num_differences=1, first=f"exit code: was {base.code}, is {now.code} ({words})"
        )
    ignoring = replace(renames, ignored=(*ALWAYS_IGNORED, *renames.ignored))
    found: Sequence[Difference] = differences(
        _kept(base.leaves, has_sentences), _kept(now.leaves, has_sentences), within=within, renames=ignoring
    )
    if not found:
        return None
    told = [str(one) for one in found[:5]]
    return Compared(command=command, num_differences=len(found), first=told[0], others=tuple(told[1:]))


def _kept(leaves: Mapping[str, Leaf], has_sentences: bool) -> Leaves:
    return {path: value for path, value in leaves.items() if has_sentences or not is_sentence(value)}


def replayed(
    said: Sequence[str],
    base: Mapping[str, Ran],
    now: Mapping[str, Ran],
    *,
    within: float,
    renames: Renames,
    has_sentences: bool = True,
) -> list[Compared]:
    """Every command of `said` that is not answered alike; one that a side did not run is none."""
    found = [
        compared(one, base.get(one), now.get(one), within=within, renames=renames, has_sentences=has_sentences)
        for one in said
    ]
    return [one for one in found if one is not None]


# --- running ----------------------------------------------------------------------------------------------------------


@contextmanager
def wheel_of(commit: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """The package of a commit, built as a wheel and installed without its dependencies, and the commit's own files."""
    source, target = folder / "source", folder / "package"
    source.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"no commit is named {commit!r} in this repository")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(source, filter="data")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = folder / "wheels"
    alone = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *alone, "--wheel-dir", str(wheels), str(source)], check=True)
    [wheel] = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)], check=True)
    yield target, source


def ran(said: Sequence[str], package: Path, source: Path, folder: Path, tell: bool = False) -> dict[str, Ran]:
    """Every command by the package in `package`, one after the other in a folder with what `source` has to read."""
    work, kept = folder / "work", folder / "kept"
    work.mkdir(parents=True)
    kept.mkdir()
    for place in READ:
        own = source / place if (source / place).exists() else REPOSITORY / place
        shutil.copytree(own, work / Path(place).name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DOVETAIL_")} | {
        "PYTHONPATH": str(package), "PYTHONIOENCODING": "utf-8", "XDG_CACHE_HOME": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
    }  # fmt: skip
    script = [sys.executable, str(Path(__file__).with_name("replay_server.py"))]
    server = subprocess.Popen(
        script, cwd=work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Ran] = {}
    try:
        for command in said:
            found[command] = one = _one(server, command, work, kept)
            if tell:
                print(f"{one.wall_s:6.2f} s  {one.code}  {command}", file=sys.stderr)
    finally:
        server.communicate()
    return found


def _one(server: subprocess.Popen[str], command: str, work: Path, kept: Path) -> Ran:
    words, streams = shlex.split(command), {name: str(kept / name) for name in ("stdout", "stderr")}
    before = _written(work)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"words": words, "timeout_s": TIMEOUT_S, **streams}) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    code = int(answer["code"])
    out, err = (Path(streams[name]).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr"))
    here = str(work)
    lines = err.replace(here, ".").strip().splitlines()
    complaint = f"ran past {TIMEOUT_S} s" if code == -signal.SIGALRM else (lines[-1] if lines else "")
    leaves = flattened(_answer(out.replace(here, ".")), words[0])
    for file in sorted(_written(work) - before):
        leaves |= _file_leaves(Path(file[0]), work)
    return Ran(code=code, leaves=leaves, complaint=complaint if code else "", wall_s=answer["wall_s"])


def _answer(out: str) -> Any:
    try:
        return json.loads(out)
    except json.JSONDecodeError:
        return {"text": out}


def _written(work: Path) -> set[tuple[str, int, int]]:
    """The tables in a folder, each with when it was written and how long it is."""
    found = [(file, file.stat()) for file in work.glob("*.csv")]
    return {(str(file), told.st_mtime_ns, told.st_size) for file, told in found}


def _file_leaves(file: Path, work: Path) -> Leaves:
    """The cells of a table that a command wrote, by its name, row and column; numbers as numbers."""
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    cells = [{key: _cell(value) for key, value in row.items() if key is not None} for row in rows]
    return flattened(cells, f"files.{file.relative_to(work).as_posix().replace('.', '_')}")


def _cell(text: Any) -> Any:
    try:
        return int(text)
    except (TypeError, ValueError):
        pass
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


# --- the command ------------------------------------------------------------------------------------------------------


def record(base: str, said: Sequence[str], found: Sequence[Compared], within: float, walls: Mapping[str, float]) -> Any:
    """What a replay found, as results are kept."""
    return {
        **stamp(),
        "base": base,
        "within": within,
        "num_commands": len(said),
        "num_equal": len(said) - len(found),
        "wall_s": dict(walls),
        "differing": [asdict(one) for one in found],
    }


def table(found: Sequence[Compared], num_commands: int) -> str:
    lines = []
    for one in found[:NUM_SHOWN]:
        lines += [f"dovetail {one.command}", f"    {one.first}  ({one.num_differences} in all)"]
    if len(found) > NUM_SHOWN:
        lines.append(f"... and {len(found) - NUM_SHOWN} more commands")
    return "\n".join([*lines, f"{num_commands} commands: {num_commands - len(found)} equal, {len(found)} differ"])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--base", metavar="COMMIT", help="the commit to compare with; that of data/replay_base.txt if none"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="numbers equal to the last bit; this, if nothing is said")
    how.add_argument("--within", type=float, default=0.0, metavar="FRAC", help="numbers equal within this, relatively")
    parser.add_argument("--keys", type=Path, default=RENAMES, metavar="FILE", help="what was renamed since the base")
    parser.add_argument("--no-sentences", action="store_true", help="leave out strings with spaces in them: prose")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands that have this in them")
    parser.add_argument("--record", action="store_true", help="keep the result under benchmarks/results, for the bars")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("-v", "--verbose", action="store_true", help="say how long each command takes")
    options = parser.parse_args(arguments)
    if options.within < 0:
        parser.error(f"--within must not be below 0; got {options.within:g}")
    if options.record and options.only:
        parser.error("--record keeps a replay of all commands; leave out --only")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    renames = load_renames(options.keys)
    base = options.base or BASE.read_text(encoding="utf-8").split()[0]
    said = [one for one in commands(COMMANDS.read_text(encoding="utf-8")) if options.only in one]
    current = {one: shlex.join(renames.words(shlex.split(one))) for one in said}
    with tempfile.TemporaryDirectory(prefix="dovetail-replay-") as name:
        folder = Path(name)
        with wheel_of(base, folder) as (package, source):
            before = ran(said, package, source, folder / "base", options.verbose)
        today = ran(list(current.values()), REPOSITORY / "src", REPOSITORY, folder / "now", options.verbose)
    after = {one: today[current[one]] for one in said}
    how = {"within": options.within, "renames": renames, "has_sentences": not options.no_sentences}
    found = replayed(said, before, after, **how)
    walls = {side: sum(one.wall_s for one in runs.values()) for side, runs in (("base", before), ("now", after))}
    result = record(base, said, found, options.within, walls)
    if options.record:
        result_file(WHAT).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2) if options.json else table(found, len(said)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
