"""What benchmarks/results/mutations.json says: mutants tried, killed and surviving, and which code they were of."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bar import REPOSITORY
from benchmarks.mutants import PACKAGES, SEED, Mutant, body_of, digest_of

RESULTS = REPOSITORY / "benchmarks" / "results" / "mutations.json"
LEAST_KILLED_FRAC = 0.85  # 0.1 promised 0.8
_Z_95 = 1.959964  # standard normal quantile of 97.5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mutant that was tried, and what killed it, if anything; digests of its module, and of that test's file."""

    file: str
    line: int
    scope: str
    kind: str
    was: str
    becomes: str
    repeat: int
    killed_by: str
    source: str
    test_source: str = ""

    @property
    def key(self) -> str:
        return "|".join((self.file, self.scope, self.kind, self.was, self.becomes, str(self.repeat)))

    @property
    def name(self) -> str:
        return Path(self.file).name + self.key.removeprefix(self.file)


def row(mutant: Mutant, killed_by: str, sources: Mapping[str, str]) -> Row:
    return Row(
        file=mutant.file,
        line=mutant.line,
        scope=mutant.scope,
        kind=mutant.kind,
        was=mutant.was,
        becomes=mutant.becomes,
        repeat=mutant.repeat,
        killed_by=killed_by,
        source=digest_of(body_of(sources[mutant.file])),
        test_source=test_digest(killed_by),
    )


def test_digest(killed_by: str) -> str:
    """Of the file of the test that killed a mutant; '' where there is none."""
    file = REPOSITORY / killed_by.partition("::")[0]
    return digest_of(file.read_text(encoding="utf-8")) if killed_by and file.is_file() else ""


def digest(sources: Mapping[str, str]) -> str:
    """Of all physics: names and texts of its files."""
    return digest_of(*(part for pair in sorted(sources.items()) for part in pair))


def wilson(num_hits: int, num: int) -> tuple[float, float]:
    """The 95 % interval of a share of which `num` were drawn and `num_hits` hit. Source: Wilson, JASA 1927."""
    share, z2 = num_hits / num, _Z_95**2
    middle = (share + z2 / (2 * num)) / (1 + z2 / num)
    half = _Z_95 * math.sqrt(share * (1 - share) / num + z2 / (4 * num**2)) / (1 + z2 / num)
    return max(0.0, middle - half), min(1.0, middle + half)


def tally(rows: Iterable[Row], name: str) -> dict[str, dict[str, int]]:
    """Tried and killed by `kind`, or by the package."""
    made: dict[str, Counter[str]] = {}
    for one in rows:
        group = one.kind if name == "kind" else one.file.partition("/")[0]
        made.setdefault(group, Counter()).update({"tried": 1, "killed": int(bool(one.killed_by))})
    return {group: dict(counts) for group, counts in sorted(made.items())}


def killed_frac_of_all(rows: Sequence[Row], by_package: Mapping[str, int]) -> float:
    """The share of the population that the sample stands for: each package weighs what it has of all mutants."""
    shares = {name: counts["killed"] / counts["tried"] for name, counts in tally(rows, "package").items()}
    return sum(by_package[name] * share for name, share in shares.items()) / sum(by_package[name] for name in shares)


def systematic(rows: Sequence[Row], mutants: Sequence[Mutant], sources: Mapping[str, str]) -> dict[str, Any]:
    """The record of a sample: figures first, then survivors, then what was killed and by which test."""
    num_killed = sum(bool(one.killed_by) for one in rows)
    packages = Counter(mutant.file.partition("/")[0] for mutant in mutants)
    by_package = {name: packages[name] for name in PACKAGES}
    return {
        "sources": digest(sources),
        "population": {"mutants": len(mutants), "by_package": by_package},
        "sample": {"mutants": len(rows), "seed": SEED},
        "killed": num_killed,
        "killed_frac": round(num_killed / len(rows), 4),
        "killed_frac_interval": [round(edge, 4) for edge in wilson(num_killed, len(rows))],
        "killed_frac_weighted": round(killed_frac_of_all(rows, by_package), 4),
        "by_package": tally(rows, "package"),
        "by_kind": tally(rows, "kind"),
        "survivors": [asdict(one) for one in rows if not one.killed_by],
        "dead": [asdict(one) for one in rows if one.killed_by],
    }


def brief(rows: Sequence[Row]) -> dict[str, Any]:
    """How many were killed, in all and by package, and which were not."""
    return {
        "tried": len(rows),
        "killed": sum(bool(one.killed_by) for one in rows),
        "by_package": tally(rows, "package"),
        "survivors": [{"file": one.file, "was": one.was, "becomes": one.becomes} for one in rows if not one.killed_by],
    }


def recorded(file: Path = RESULTS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def recorded_rows(results: Mapping[str, Any]) -> list[Row]:
    kept = [*results.get("survivors", ()), *results.get("dead", ())]
    return [Row(**{name: one[name] for name in Row.__dataclass_fields__ if name in one}) for one in kept]


def write(results: Mapping[str, Any], file: Path = RESULTS) -> None:
    """All of it at once: a reader never finds half a file."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    part.replace(file)
