"""Stores of searches: listed, exported, rescued and gone on with."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz.case import Case, Seed, seed
from benchmarks.fuzz.child import warm_up
from benchmarks.fuzz.inputs import add
from benchmarks.fuzz.inputs.search import MINE, PLANNED, SYSTEMS
from dovetail.store import reading

LOOKS = (
    "studies s.db --json",
    "studies s.db",
    "export s.db --out rows.csv --json",
    "export s.db --out rows.csv --other-versions",
    "studies s.db --rescue saved.db --json",
)
SEARCHES = {
    MINE: "mine spec.yaml --algorithm random --budget 8 --store s.db --json",
    PLANNED: "mine spec.yaml --store s.db --json",
    SYSTEMS: "codesign spec.yaml --no-sensitivity --store s.db --json",
}


@add("store", "stores that searches keep rows in: studies, export and --store", needs=("optuna",))
def stores(folder: Path) -> tuple[Seed, ...]:
    return tuple(
        _kept(folder / f"{number}.db", spec, command) for number, (spec, command) in enumerate(SEARCHES.items())
    )


def _kept(file: Path, spec: str, command: str) -> Seed:
    """What a search kept, and the commands that read it; the search itself goes on from it."""
    arguments = tuple(str(file) if word == "s.db" else word for word in command.split())
    warm_up(Case(files={"spec.yaml": spec.encode()}, arguments=arguments))
    with reading(file) as store:
        key = store.studies()[0].key
    named = f"studies s.db --study {key[:6]}"
    looks = (command, *LOOKS, f"{named} --json", named)
    return seed({"s.db": file.read_bytes(), "spec.yaml": spec}, *looks, broken=("s.db",))
