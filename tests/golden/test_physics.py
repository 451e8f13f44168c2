"""Numbers that move are other physics: the version that studies are kept under must move with them.

Two records say what numbers a version of the physics has. `physics/goldens.json` has a hash of the numbers of every
other golden, whatever their keys are called; lists of what is registered are facts and not among them.
`physics/rows-KIND.json` has rows that a small search keeps.
Where either moves, this asks for an entry in `HISTORY` of dovetail/store/version.py; --bless records them again only
once that is there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli import main
from dovetail.store import reading, version
from dovetail.store.version import HISTORY, KINDS
from tests.golden.cases import cases
from tests.golden_files import golden_text

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
RECORDS = HERE / "physics"
GOLDENS = RECORDS / "goldens.json"
NUM_DIGITS = 10  # as golden files have them: a last bit is no physics
HEX = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]\d+")  # what float.hex writes
SPEC = """
workload: {model: gpt2-345m, global_batch: 16, seq: 128}
devices: 4
chip: {num_tensor: [1, 4], num_rows: 128, num_cols: [64, 256], num_vector: 2, num_lanes: 128,
       sram_mib: 32, hbm_stacks: [2, 4], stack_gib: 8}
"""
SEARCHES = {
    "mine": ("mine", "bert-base", "--batch", "4", "--algorithm", "random", "--budget", "6"),
    "codesign": ("codesign", "SPEC"),
    "pareto": ("pareto", "SPEC"),
}
LISTS = {(case.topic, case.name) for case in cases() if case.is_catalogue}
BLESS = "pytest tests/golden/test_physics.py --bless"
ASK = "numbers moved: add an entry to HISTORY of dovetail/store/version.py and to Numbers of CHANGELOG.md, then --bless"


def numbers_in(value: Any) -> Iterator[str]:
    """Every number, to ten digits, in no order: keys may be renamed and sorted otherwise."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(item)
    elif isinstance(value, str) and HEX.fullmatch(value):
        yield f"{float.fromhex(value):.{NUM_DIGITS}g}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{value:.{NUM_DIGITS}g}"


def digest_of_numbers(value: Any) -> str:
    return hashlib.sha256(" ".join(sorted(numbers_in(value))).encode()).hexdigest()[:16]


def digests() -> dict[str, str]:
    """Of every golden by its name: a case of a topic, or a file. A case that is new moves nothing."""
    found = {file.name: digest_of_numbers(read(file)) for file in HERE.glob("*.json")}
    for file in (HERE / "exact").glob("*.json"):
        for case, figures in read(file).items():
            if isinstance(figures, dict) and (file.stem, case) not in LISTS:
                found[f"{file.stem}: {case}"] = digest_of_numbers(figures)
    return found


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def write(file: Path, value: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(golden_text(value), encoding="utf-8")


def test_recorded_numbers_move_only_with_the_version_of_the_physics(bless: bool) -> None:
    now, known, physics = digests(), read(GOLDENS), version.physics_version()
    before = known.get("goldens", {})
    moved = [name for name, digest in now.items() if before.get(name, digest) != digest]
    is_newer = physics > known.get("physics", 0)
    assert is_newer or not moved, f"{', '.join(moved)}: {ASK}"
    if bless:
        write(GOLDENS, {"physics": physics, "goldens": now})
        return
    changed = sorted(before.keys() ^ now.keys())
    assert not changed, f"goldens came or went: {', '.join(changed)}; run `{BLESS}`"
    assert known["physics"] == physics, f"run `{BLESS}`"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_kind_of_study_move_only_with_its_physics(kind: str, bless: bool, tmp_path: Path) -> None:
    """A row that is gone on from must be the one that would be computed today."""
    spec, store = tmp_path / "spec.yaml", tmp_path / "rows.db"
    spec.write_text(SPEC, encoding="utf-8")
    words = [str(spec) if word == "SPEC" else word for word in SEARCHES[kind]]
    assert main([*words, "--store", str(store), "--quiet"]) == 0
    record = RECORDS / f"rows-{kind}.json"
    now, physics = kept_rows(store), version.physics_version(kind)
    before = read(record) or {"physics": 0, "studies": {}}
    for study, one in now.items():
        was = before["studies"].get(study, one)
        if was["asked"] == one["asked"]:  # else the key has changed already, as a chip or a model has
            assert physics > before["physics"] or was["rows"] == one["rows"], f"rows of {study}: {ASK}"
    if bless:
        write(record, {"physics": physics, "studies": now})
        return
    assert before == json.loads(golden_text({"physics": physics, "studies": now})), f"run `{BLESS}`"


def kept_rows(file: Path) -> dict[str, Any]:
    """By kind of study: a hash of what was asked, and the numbers of every row by its point."""
    found = {}
    with reading(file) as store:
        for study in store.studies():
            asked = hashlib.sha256(json.dumps(study.inputs, sort_keys=True).encode()).hexdigest()[:16]
            rows = {
                " ".join(map(str, row.point)): [f"{number:.{NUM_DIGITS}g}" for number in (row.loss, *row.also)]
                for row in store.at(study.key).rows()
            }
            found[study.kind] = {"asked": asked, "rows": rows}
    return found


def test_every_change_of_the_physics_is_told_under_numbers() -> None:
    """And every prediction that moved since 0.1 says which version of the physics it is."""
    versions = [change.version for change in HISTORY]
    assert versions == list(range(1, len(HISTORY) + 1))
    assert all(set(change.moves) <= set(KINDS) for change in HISTORY)
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## 0.1.0")[0]
    entries = [
        entry
        for section in re.findall(r"^### Numbers\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        for entry in re.split(r"^- ", section, flags=re.MULTILINE)[1:]
        if not entry.startswith("None moved")
    ]
    told = [[int(number) for number in re.findall(r"physics (\d+)", entry)] for entry in entries]
    unsaid = [entry.split(":")[0] for entry, numbers in zip(entries, told, strict=True) if not numbers]
    assert unsaid == [], "an entry under Numbers names its version of the physics, as in (physics 2)"
    assert sorted({number for numbers in told for number in numbers}) == versions[1:]


def test_a_number_that_moves_is_found_whatever_it_is_called() -> None:
    first = {"step_s": 1.25, "parts": [3, {"mfu": (0.1).hex()}]}
    renamed = {"a": [{"x": 0.1}, 3], "step_time_s": 1.25 + 1e-14}
    moved = {"step_s": 1.25001, "parts": [3, {"mfu": (0.1).hex()}]}
    assert digest_of_numbers(first) == digest_of_numbers(renamed) != digest_of_numbers(moved)
