"""Break the physics one expression at a time, and see that tests notice.

`python -m benchmarks.mutations` draws a fixed sample of every mutant that the operators of benchmarks/mutators.py make
of cost/, network/, schedule/ and plan/, tries each on the tests that reach it, and writes what was killed and what
survived to benchmarks/results/mutations.json. `--keep` tries only those that survived last time, or whose file or
killing test has changed since, and says how many it kept; `--seed WORD` draws another sample, to check that tests were
not made for the first one, and records it beside; `--only TEXT` tries some of a sample and records nothing. `--direct`
leaves out the slow tests, so that more may survive than do: a share that is killed at least.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import mutation_records as records
from benchmarks.forked_tests import import_shared
from benchmarks.mutant_runs import Suite, first_failure, verdicts
from benchmarks.mutants import (
    SAMPLE_SIZE,
    SEED,
    SOURCES,
    Mutant,
    body_of,
    digest_of,
    physics_sources,
    population,
    sample,
)
from benchmarks.reach import DIRECT_FOLDERS, OTHER_FOLDERS, Reached, all_marked, reached
from benchmarks.stamp import stamp


def tried(mutants: Sequence[Mutant], num_workers: int, *, is_direct: bool = False) -> list[records.Row]:
    """Tries and prints each. What killed any of them must pass where nothing is broken, or it has killed nothing.

    Those that survive the most direct tests are tried on the others, which take longest to be recorded, unless
    `is_direct`.
    """
    import_shared()
    sources = physics_sources()
    modules = all_marked(sources)
    killers: dict[Mutant, str] = {}
    tests: list[Reached] = []
    for folders in (DIRECT_FOLDERS,) if is_direct else (DIRECT_FOLDERS, OTHER_FOLDERS):
        left = [mutant for mutant in mutants if not killers.get(mutant)]
        if not left:
            break
        suite = Suite(reached(sources, modules, folders), modules, sources)
        tests += suite.tests
        for mutant, by in verdicts(left, suite, num_workers):
            killers[mutant] = by
            verdict = "killed" if by else f"SURVIVED {' '.join(folders)}"
            words = f"{verdict:9} {mutant.file}:{mutant.line} {mutant.was} -> {mutant.becomes}  {by}"
            print(words, file=sys.stderr, flush=True)
    names = {*killers.values()}
    if broken := first_failure([test for test in tests if test.test in names], lambda: None):
        raise SystemExit(f"{broken} fails without any mutant: mend it, then try again")
    texts = {mutant.file: (SOURCES / mutant.file).read_text(encoding="utf-8") for mutant in mutants}
    return [records.row(mutant, killers[mutant], texts) for mutant in mutants]


def record_sample(size: int, *, does_keep: bool, num_workers: int) -> bool:
    """Tries the sample and writes the record; whether enough were killed."""
    sources = physics_sources()
    mutants = population(sources)
    drawn = sample(mutants, sources, size)
    bodies = {mutant.file: digest_of(body_of(sources[mutant.file])) for mutant in drawn}
    last = records.recorded() if records.RESULTS.exists() else {}
    dead = {
        (one.name, one.source): one.killed_by
        for one in records.recorded_rows(last)
        if does_keep and one.test_source and one.test_source == records.test_digest(one.killed_by)
    }
    kept = {mutant.key: dead.get((mutant.name, bodies[mutant.file]), "") for mutant in drawn}
    fresh = {one.key: one for one in tried([mutant for mutant in drawn if not kept[mutant.key]], num_workers)}
    rows = [fresh.get(mutant.key) or records.row(mutant, kept[mutant.key], sources) for mutant in drawn]
    made = records.systematic(rows, mutants, sources)
    beside: dict[str, object] = {"checked": last["checked"]} if "checked" in last else {}
    records.write({**stamp(), **made, "kept": sum(bool(by) for by in kept.values()), **beside})
    print(f"{made['killed']} of {len(rows)} mutants killed, of a population of {len(mutants)}", file=sys.stderr)
    return bool(made["killed_frac"] >= records.LEAST_KILLED_FRAC)


def record_check(size: int, seed: str, num_workers: int, *, is_direct: bool = False) -> bool:
    """Tries another sample and writes what it came to beside the first one's record; whether enough were killed.

    With `is_direct` on the direct tests alone: what other tests would kill besides is not known, and said to be so.
    """
    sources = physics_sources()
    made = records.brief(tried(sample(population(sources), sources, size, seed), num_workers, is_direct=is_direct))
    about: dict[str, object] = {name: stamp()[name] for name in ("commit", "date")}
    about |= {"sources": records.digest(sources), "is_direct": is_direct}
    records.write({**records.recorded(), "checked": {"seed": seed} | made | about})
    print(f"{made['killed']} of {made['tried']} mutants of another sample killed", file=sys.stderr)
    return bool(made["killed"] >= records.LEAST_KILLED_FRAC * made["tried"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutations", description="break the physics, see tests fail"
    )
    parser.add_argument("--size", metavar="N", type=int, default=SAMPLE_SIZE, help="mutants in the sample")
    parser.add_argument("--seed", metavar="WORD", default=SEED, help="another draws another sample, recorded beside")
    parser.add_argument("--keep", action="store_true", help="keep what is recorded as killed of unchanged files")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="mutants whose file or formula holds TEXT; no record"
    )
    parser.add_argument(
        "--direct", action="store_true", help="by unit, conformance and golden tests alone; of another sample"
    )
    parser.add_argument("--workers", metavar="N", type=int, default=1, help="mutants at a time")
    options = parser.parse_args(arguments)
    if options.direct and options.seed == SEED:
        parser.error("--direct is for another sample: pass --seed")
    if options.only:
        sources = physics_sources()
        drawn = sample(population(sources), sources, options.size, options.seed)
        chosen = [mutant for mutant in drawn if options.only in mutant.file or options.only in mutant.was]
        if not chosen:
            parser.error(f"no mutant's file or formula holds {options.only!r}")
        return 0 if all(one.killed_by for one in tried(chosen, options.workers, is_direct=options.direct)) else 1
    if options.seed != SEED:
        return 0 if record_check(options.size, options.seed, options.workers, is_direct=options.direct) else 1
    return 0 if record_sample(options.size, does_keep=options.keep, num_workers=options.workers) else 1


if __name__ == "__main__":
    raise SystemExit(main())
