"""Break the physics one formula at a time, in a copy of the project, and see that tests notice.

`python -m benchmarks.mutations` prints every mutant and whether it was caught; `--only TEXT` tries those whose file or
formula holds it, and records nothing. A mutant that survives is a hole in the tests; a mutant that no longer applies is
a formula that moved, and is an error here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants_of_costs import OF_COSTS
from benchmarks.mutants_of_plans import OF_PLANS
from benchmarks.mutants_of_time import OF_TIME

REPOSITORY = Path(__file__).resolve().parent.parent
# what would notice broken physics, quickest first; golden files and recorded outputs would too, but prove less
QUICK = (
    "tests/unit",
    "tests/validation",
    "tests/property/test_sharding_laws.py",
    "tests/property/test_time_laws.py",
    "tests/property/test_routing_laws.py",
    "tests/property/test_pipeline_laws.py",
    "tests/property/test_goodput_laws.py",
    "tests/property/test_bisection_laws.py",
    "tests/property/test_contention_laws.py",
    "tests/property/test_memory_laws.py",
    "tests/property/test_many_plans_laws.py",
    "tests/property/test_refine_laws.py",
    "tests/property/test_planner_laws.py",
    "tests/property/test_cost_laws.py",
    "tests/property/test_silicon_laws.py",
    "tests/conformance/test_transformers.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One formula made wrong: `was` stands exactly once in `file` and becomes `becomes`."""

    file: str
    was: str
    becomes: str


MUTANTS = tuple(Mutant(file=file, was=was, becomes=becomes) for file, was, becomes in (*OF_PLANS, *OF_COSTS, *OF_TIME))


UNCHANGED = Mutant(file="units.py", was="BITS_PER_BYTE = 8.0", becomes="BITS_PER_BYTE = 8.0")


def caught(mutant: Mutant) -> str:
    """The first test that fails on `mutant`, or '' when none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(
            REPOSITORY, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "site")
        )
        target = copy / "src" / "dovetail" / mutant.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutant.was) != 1:
            raise SystemExit(
                f"{mutant.file}: {mutant.was!r} stands {text.count(mutant.was)} times; a mutant needs it once"
            )
        target.write_text(text.replace(mutant.was, mutant.becomes), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in (*_mirror(mutant), *QUICK):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", tests]
            run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return failed[0].split(" - ")[0] if failed else f"{tests}: exit {run.returncode}"
    return ""


def _mirror(mutant: Mutant) -> tuple[str, ...]:
    """The unit tests of the package that the mutant is in: they notice soonest."""
    folder = Path("tests/unit") / mutant.file.partition("/")[0]
    return (str(folder),) if (REPOSITORY / folder).is_dir() else ()


def results(mutants: Sequence[Mutant], num_workers: int = 2) -> Iterator[tuple[Mutant, str]]:
    with ThreadPoolExecutor(num_workers) as pool:
        yield from zip(mutants, pool.map(caught, mutants), strict=True)


def num_survivors(mutants: Sequence[Mutant]) -> int:
    """Tries and prints every mutant; how many no test noticed."""
    assert not caught(UNCHANGED), "tests fail without any mutant: mend them first"
    survivors = 0
    for mutant, by in results(mutants):
        survivors += not by
        print(
            f"{'caught' if by else 'SURVIVED':9} {mutant.file}: {mutant.becomes!r}  {by}", file=sys.stderr, flush=True
        )
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught", file=sys.stderr)
    return survivors


def record(file: Path) -> int:
    """Tries every mutant and writes the count with the commit; the number of survivors."""
    survivors = num_survivors(MUTANTS)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    file.parent.mkdir(parents=True, exist_ok=True)
    outcome = {"caught": len(MUTANTS) - survivors, "mutants": len(MUTANTS), "commit": commit or "no commit"}
    file.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutations", description="break formulas, see tests fail"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose file or formula holds TEXT")
    only = parser.parse_args(arguments).only
    if not only:
        return 1 if record(REPOSITORY / "benchmarks" / "results" / "mutations.json") else 0
    chosen = [mutant for mutant in MUTANTS if only in mutant.file or only in mutant.was]
    if not chosen:
        parser.error(f"no mutant's file or formula holds {only!r}")
    return 1 if num_survivors(chosen) else 0


if __name__ == "__main__":
    raise SystemExit(main())
