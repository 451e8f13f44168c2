"""What is tried: files in a folder, and the command that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COMMAND_FILE = "command.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Files by name, and what follows `dovetail`, run from the folder that they are in."""

    files: Mapping[str, bytes]
    arguments: tuple[str, ...]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A valid input: some commands that read it, and which of its files are to be broken, all of them unless said."""

    files: Mapping[str, bytes]
    commands: tuple[tuple[str, ...], ...]
    broken: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return self.broken or tuple(self.files)


def seed(files: Mapping[str, str | bytes], *commands: str, broken: tuple[str, ...] = ()) -> Seed:
    """A seed whose commands are written as one would type them, without anything that needs quoting."""
    contents = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    return Seed(files=contents, commands=tuple(tuple(command.split()) for command in commands), broken=broken)
