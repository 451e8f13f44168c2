"""A value in a file together with its place, and how one file names another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.text import SUFFIXES, is_file, one_line, quoted, read_text
from dovetail.files.tree import Node, parse_json, parse_yaml
from dovetail.registry import Registry

MAX_REFERENCES = 8  # files that name files that name files
MAX_NAME_CHARACTERS = 1000
SECTIONS = ("workload", "cluster", "plan")
# Where keys belong that people write beside the sections instead.
_HOMES = {
    **dict.fromkeys(("model", "global_batch", "seq", "precision", "kernels", "attention"), "workload"),
    **dict.fromkeys(("chip", "topology", "devices"), "cluster"),
}
SPEC_KEYS = ("name", *SECTIONS, "space", "profile")  # `space` is for `dovetail plan`, which needs no plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One file as it was reached: `chain` holds the files on the way to it, itself last; no file, no chain.

    What is in a closed one names nothing but entries of catalogues: no file is opened or looked for on its word.
    """

    shown: str = ""
    folder: Path = Path()
    chain: tuple[str, ...] = ()
    is_closed: bool = False

    @property
    def source(self) -> str:
        """What a figure read from here gives as its source."""
        return f"given in {Path(self.shown).name}" if self.shown else "given by the user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A node of a document, with the path that leads to it."""

    document: Document
    node: Node
    path: str = ""
    line: int = 0

    @property
    def value(self) -> Any:
        return self.node.value

    @property
    def key(self) -> str:
        """The last word of the path, or what the document is when it is the whole."""
        return self.path.rpartition(".")[2] or "the file"

    @property
    def where(self) -> str:
        place = f"{self.document.shown}:{self.line}" if self.document.shown and self.line else self.document.shown
        return ": ".join(part for part in (place, one_line(self.path)) if part)

    def child(self, key: str | int) -> Entry:
        """The entry under `key`; where there is none, its place all the same, on the line of what should hold it."""
        value = self.node.value
        if isinstance(key, int):
            item = value[key] if isinstance(value, list) and key < len(value) else Node(None)
            return Entry(document=self.document, node=item, path=f"{self.path}[{key}]", line=item.line or self.line)
        node = value.get(key, Node(None)) if isinstance(value, dict) else Node(None)
        line = self.node.key_lines.get(key) or node.line or self.line
        return Entry(document=self.document, node=node, path=f"{self.path}.{key}" if self.path else key, line=line)

    def has(self, key: str) -> bool:
        return isinstance(self.node.value, dict) and key in self.node.value

    def at(self, dotted: str) -> Entry:
        """The entry under a dotted path."""
        entry = self
        for key in dotted.split(".") if dotted else ():
            entry = entry.child(key)
        return entry

    def refused(self, message: str) -> InvalidInput:
        return InvalidInput(one_line(message), self.where)


@contextmanager
def placed(entry: Entry, keys: Mapping[str, str] | None = None) -> Iterator[None]:
    """Gives errors of the values above the place of `entry`; `keys` turns their field names into written keys."""
    try:
        yield
    except DovetailError as error:
        first, _, rest = error.where.partition(".")
        dotted = ".".join(part for part in ((keys or {}).get(first, first), rest) if part)
        raise type(error)(one_line(error.message), entry.at(dotted).where) from None


def opened(file: Path, named_by: Entry | None = None) -> Entry:
    """The whole of `file`; `named_by` is the entry that names it, if one does."""
    parent = named_by.document if named_by else Document()
    where = named_by.where if named_by else ""
    shown = one_line(str(file))
    try:
        identity = os.path.realpath(file)
    except (OSError, ValueError):
        identity = str(file)  # reading it says what is wrong with the name
    if identity in parent.chain:
        names = [os.path.basename(link) for link in (*parent.chain[parent.chain.index(identity) :], identity)]
        raise InvalidInput(f"files must not name each other in a circle: {one_line(' -> '.join(names))}", where)
    if len(parent.chain) == MAX_REFERENCES:
        raise InvalidInput(f"files name files at most {MAX_REFERENCES} deep; write the value out instead", where)
    text = read_text(file, where)
    parse = parse_json if file.suffix.lower() == ".json" else parse_yaml
    document = Document(shown=shown, folder=file.parent, chain=(*parent.chain, identity))
    root = parse(text, shown)
    if not isinstance(root.value, dict):
        raise InvalidInput(f"a file holds keys with values, as in 'name: value'; got {described(root.value)}", shown)
    return Entry(document=document, node=root)


def spoken(reference: str) -> Entry:
    """A reference given outside any file, such as a command's argument."""
    return Entry(document=Document(), node=Node(reference))


def is_file_name(name: str) -> bool:
    return "/" in name or os.sep in name or name.lower().endswith(SUFFIXES)


def followed(entry: Entry, noun: str, registry: Registry[Any]) -> Entry:
    """What `entry` comes to once file names are followed: a mapping, or a name that `registry` knows.

    A catalogue name wins over a file of that name; a slash or an ending says that a file is meant. A whole spec may
    stand in for one of its sections.
    """
    while isinstance(entry.value, str):
        name: str = entry.value
        if len(name) > MAX_NAME_CHARACTERS:
            raise entry.refused(f"a name has at most {MAX_NAME_CHARACTERS} characters; got {len(name):,}")
        if entry.document.is_closed and name not in registry:
            raise _closed_to(entry, name, noun, registry)
        if not is_file_name(name):
            if name in registry:
                return entry
            if not is_file(entry.document.folder / name):
                with placed(entry):
                    registry[name]  # raises, naming what is close
        entry = _section(opened(entry.document.folder / name, entry), noun)
    if not isinstance(entry.value, dict):
        raise entry.refused(f"{entry.key} must be a {noun}'s name, a file or a mapping; got {described(entry.value)}")
    return entry


def _closed_to(entry: Entry, name: str, noun: str, registry: Registry[Any]) -> InvalidInput:
    message = (
        f"here a {noun} is named from the catalogue or written out, for no other file is opened; got {quoted(name)}"
    )
    return entry.refused(message if is_file_name(name) else f"{message}{did_you_mean(name[:100], registry.names())}")


def _section(whole: Entry, noun: str) -> Entry:
    if noun not in SECTIONS or not whole.has(noun):
        return whole
    check_spec_keys(whole)
    return whole.child(noun)


def check_spec_keys(whole: Entry) -> None:
    for key in whole.value:
        if key not in SPEC_KEYS:
            section = _HOMES.get(key, "")
            hint = f"; it belongs under {section}" if section else did_you_mean(key[:100], SPEC_KEYS)
            raise whole.child(key).refused(f"no key of a spec is named {quoted(key)}{hint}")


def described(value: object) -> str:
    """A value as a message shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else f"a list of {len(value)}"
    if isinstance(value, str):
        return quoted(value)
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:20]}... ({len(text)} digits)"
