"""How a file is broken, by what its name ends in."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from random import Random

from benchmarks.fuzz.case import Case, Seed
from benchmarks.fuzz.stores import changed_store
from benchmarks.fuzz.tables import changed_table
from benchmarks.fuzz.texts import changed_bytes, changed_lines
from benchmarks.fuzz.trees import changed_tree, parsed, turned_tree, written
from benchmarks.fuzz.wires import changed_message, changed_stream
from benchmarks.fuzz.words import changed_words

TURNED_FRAC = 0.5  # of changes of a tree: those that keep every type, to get past what checks types
NUM_CHANGES = (1, 1, 1, 2, 2, 3, 5)
BLIND_FRAC = 0.25  # of changes: bytes and lines, whatever they say
Change = Callable[[bytes, Sequence[bytes], Random, int], bytes]


def broken(seed: Seed, every: Sequence[Seed], rng: Random) -> Case:
    """A seed with one or more of its files changed, and one of its commands; without files, a command's words."""
    arguments = rng.choice(seed.commands)
    if not seed.files:
        for _ in range(rng.choice(NUM_CHANGES)):
            arguments = changed_words(arguments, rng) if len(arguments) > 1 else arguments
        return Case(files={}, arguments=arguments)
    files = dict(seed.files)
    targets = seed.targets
    for name in rng.sample(targets, rng.choice((1, 1, 1, min(2, len(targets))))):
        others = [other.files[same] for other in every for same in other.targets if _ending(same) == _ending(name)]
        files[name] = changed(name, files[name], others, rng)
    return Case(files=files, arguments=arguments)


def changed(name: str, data: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """`data` after one or a few changes of the kind that a file of this name can have."""
    num_changes = rng.choice(NUM_CHANGES)
    how = CHANGES.get(_ending(name), _blind)
    return (_blind if rng.random() < BLIND_FRAC else how)(data, others, rng, num_changes)


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()


def _blind(data: bytes, others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    for _ in range(num_changes):
        data = changed_lines(data, rng) if rng.random() < 0.3 else changed_bytes(data, others, rng)
    return data


def _tree(data: bytes, others: Sequence[bytes], rng: Random, num_changes: int, *, is_json: bool) -> bytes:
    tree = parsed(data, is_json=is_json)
    grafts = [parsed(rng.choice(others), is_json=is_json)] if others else []
    change = turned_tree if rng.random() < TURNED_FRAC else changed_tree
    for _ in range(num_changes):
        tree = change(tree, grafts, rng)
    return written(tree, is_json=is_json)


def _yaml(data: bytes, others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    return _tree(data, others, rng, num_changes, is_json=False)


def _json(data: bytes, others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    return _tree(data, others, rng, num_changes, is_json=True)


def _table(data: bytes, _others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    for _ in range(num_changes):
        data = changed_table(data, rng)
    return data


def _packed(data: bytes, others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    """JSON inside a gzip archive: the JSON is changed."""
    return gzip.compress(
        _json(gzip.decompress(data), [gzip.decompress(other) for other in others], rng, num_changes), 1
    )


def _message(data: bytes, _others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    return changed_message(data, rng, num_changes)


def _stream(data: bytes, _others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    return changed_stream(data, rng, num_changes)


def _store(data: bytes, _others: Sequence[bytes], rng: Random, num_changes: int) -> bytes:
    return changed_store(data, rng, num_changes)


CHANGES: Mapping[str, Change] = {
    ".yaml": _yaml, ".yml": _yaml, ".json": _json, ".gz": _packed, ".csv": _table, ".onnx": _message, ".et": _stream,
    ".db": _store,
}  # fmt: skip
