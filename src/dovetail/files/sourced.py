"""Figures with their sources beside them: `{value: 80 GiB, source: datasheet}`, or `source` for all of a mapping.

What is read from such a file is the same tree without them, and the sources by the path of keys that they are of.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dovetail.files.entry import Entry, described
from dovetail.files.schema import MAX_SENTENCE_CHARACTERS
from dovetail.files.tree import Node

VALUE, SOURCE = "value", "source"
Found = dict[str, str]  # by path of keys, such as hbm.capacity; of a mapping as a whole, its own path


def unsourced(entry: Entry, kept: frozenset[str]) -> tuple[Entry, Found]:
    """`entry` without its sources, and these; what lies under keys of `kept` at the top is left as it is."""
    found: Found = {}
    children: dict[str, Node] = {}
    for key, node in entry.value.items():
        if key == SOURCE:
            found[""] = _source(entry.child(key))
        else:
            children[key] = node if key in kept else _plain(entry.child(key), key, found)
    return replace(entry, node=_mapping(entry.node, children)), found


def _plain(entry: Entry, path: str, found: Found) -> Node:
    if not isinstance(entry.value, dict):
        return entry.node
    if VALUE in entry.value:
        more = [key for key in entry.value if key not in (VALUE, SOURCE)]
        if more:
            raise entry.child(more[0]).refused(f"value goes with its source, and nothing else; got {more[0][:100]!r}")
        if SOURCE in entry.value:
            found[path] = _source(entry.child(SOURCE))
        return entry.child(VALUE).node
    if SOURCE in entry.value:
        found[path] = _source(entry.child(SOURCE))
    children = {key: _plain(entry.child(key), f"{path}.{key}", found) for key in entry.value if key != SOURCE}
    return _mapping(entry.node, children)


def _mapping(before: Node, children: dict[str, Node]) -> Node:
    lines = {key: line for key, line in before.key_lines.items() if key in children}
    return Node(children, before.line, before.num_values, lines)


def _source(entry: Entry) -> str:
    text: Any = entry.value
    if not isinstance(text, str) or not text.strip():
        raise entry.refused(f"a source says in words where a figure comes from; got {described(text)}")
    if len(text) > MAX_SENTENCE_CHARACTERS or not text.isprintable():
        raise entry.refused(f"a source has at most {MAX_SENTENCE_CHARACTERS:,} printable characters")
    return text
