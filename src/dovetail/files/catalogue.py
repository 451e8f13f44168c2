"""Entries of catalogues that are files of ours, in the format that users write, each read when it is first needed.

A registry names this module and finds here what lies beside its modules: `NAME.yaml` is the entry NAME. Nothing that
reads YAML is imported until an entry is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

SUFFIX = ".yaml"


@dataclass(frozen=True, eq=False)
class Filed:
    """An entry of a catalogue: calling it gives what its file describes, the same value each time."""

    noun: str
    file: Path
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.file.name.removesuffix(SUFFIX))

    def __call__(self) -> Any:
        return self._value

    @cached_property
    def _value(self) -> Any:
        return _READERS[self.noun](self.file)

    @cached_property
    def device_names(self) -> tuple[str, ...] | None:
        """What drivers call a chip; none where the file has no such key."""
        from dovetail.files.entry import opened

        whole = opened(self.file)
        return tuple(whole.child("device_names").node.plain()) if whole.has("device_names") else None


def filed_entries(noun: str, folders: Iterable[str]) -> Iterator[tuple[str, Filed]]:
    """By name, the entries that lie in the folders of a package."""
    for folder in folders:
        for file in sorted(Path(folder).glob(f"*{SUFFIX}")):
            entry = Filed(noun, file)
            yield entry.name, entry


def _chip(file: Path) -> Any:
    from dovetail.files.chip import chip_of
    from dovetail.files.entry import opened

    return chip_of(opened(file))


def _model(file: Path) -> Any:
    from dovetail.files.model import model_of_file

    return model_of_file(file)


_READERS: dict[str, Callable[[Path], Any]] = {"chip": _chip, "model": _model}
