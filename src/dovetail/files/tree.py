"""Text into a tree of plain values that remember their lines.

The tree is built from the parser's events and not by its constructors, so no tag can make anything, nesting cannot
exhaust the stack, what an alias repeats is counted, and a key given twice is seen. Words mean what they say:
only `true` and `false` are booleans, `010` and `1:30` are text.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from dovetail.errors import InvalidInput
from dovetail.files.text import one_line, quoted

MAX_DEPTH = 32
MAX_VALUES = 20_000  # with aliases written out; the largest real specs have a few hundred
MAX_JSON_VALUES = 200_000
MAX_INT_DIGITS = 4000  # Python refuses to read longer ones

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_LABELS = {"true": True, "false": False, "null": None, "~": None, "": None}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line it begins on (0 where none is known); a mapping also knows the lines of its keys."""

    value: Scalar | dict[str, Node] | list[Node]
    line: int = 0
    num_values: int = 1  # itself and all below it, aliases written out
    key_lines: dict[str, int] = field(default_factory=dict)

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    value: dict[str, Node] | list[Node]
    line: int
    anchor: str | None
    num_values: int = 1
    key: str | None = None
    key_lines: dict[str, int] = field(default_factory=dict)


def parse_yaml(text: str, shown: str) -> Node:
    """The one document in `text`; `shown` names the file in errors."""
    builder = _Builder(shown)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, len(text.splitlines())) if mark else 0  # the end of the text counts as a line to it
        problem = one_line(error.problem or error.context or "it is malformed")
        raise InvalidInput(f"cannot read this as YAML: {problem}", f"{shown}:{line}" if line else shown) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # control characters, impossible escapes
        reason = getattr(error, "reason", None) or str(error)
        raise InvalidInput(f"cannot read this as YAML: {one_line(str(reason).partition(chr(10))[0])}", shown) from None
    if builder.root is None or builder.root.value is None:
        raise InvalidInput("the file is empty", shown)
    return builder.root


def _events(text: str) -> Iterator[yaml.Event]:
    events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
    return events


class _Builder:
    """Takes the parser's events in order and grows the tree."""

    def __init__(self, shown: str) -> None:
        self.root: Node | None = None
        self._shown = shown
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._num_values = 0

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.NodeEvent):
            self._take_node(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            self._refuse("a file holds one document; remove the second one, after '---'", line)

    def _take_node(self, event: yaml.NodeEvent, line: int) -> None:
        if isinstance(event, yaml.AliasEvent):
            anchor = event.anchor or ""
            if anchor not in self._anchors:  # the parser lets an anchor name what it stands in
                self._refuse(f"alias {quoted('*' + anchor)} names no value before it", line)
            self._add(self._anchors[anchor], line, is_alias=True)
            return
        if (tag := getattr(event, "tag", None)) is not None:
            written = tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(f"tags such as {quoted(written)} are not read; write the plain value", line)
        if isinstance(event, yaml.ScalarEvent):
            is_plain = bool(event.implicit[0])
            node = Node(_scalar(event.value) if is_plain else event.value, line)
            if self._awaits_key():
                self._take_key(event.value, line)
            else:
                self._remember(event.anchor, node)
                self._add(node, line)
            return
        if self._awaits_key():
            self._refuse("a key must be a word, not a list or mapping", line)
        if len(self._open) == MAX_DEPTH:
            self._refuse(f"values are nested at most {MAX_DEPTH} deep", line)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(value={} if is_mapping else [], line=line, anchor=event.anchor))

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _take_key(self, key: str, line: int) -> None:
        frame = self._open[-1]
        if key in frame.key_lines:
            self._refuse(f"key {quoted(key)} is given twice, first on line {frame.key_lines[key]}; keep one", line)
        frame.key, frame.key_lines[key] = key, line

    def _remember(self, anchor: str | None, node: Node) -> None:
        if anchor is not None:
            self._anchors[anchor] = node

    def _close(self) -> None:
        frame = self._open.pop()
        node = Node(frame.value, frame.line, frame.num_values, frame.key_lines)
        self._remember(frame.anchor, node)
        self._add(node, frame.line)

    def _add(self, node: Node, line: int, *, is_alias: bool = False) -> None:
        # what stands below a closed list was counted when it was added
        self._num_values += node.num_values if is_alias else 1
        if self._num_values > MAX_VALUES:
            self._refuse(f"a file holds at most {MAX_VALUES:,} values, aliases written out", line)
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        frame.num_values += node.num_values
        if isinstance(frame.value, list):
            frame.value.append(node)
        elif frame.key is None:
            self._refuse("a key must be a word, not an alias", line)
        else:
            frame.value[frame.key] = node
            frame.key = None

    def _refuse(self, message: str, line: int) -> NoReturn:
        raise InvalidInput(message, f"{self._shown}:{line}")


def _scalar(text: str) -> Scalar:
    if text.lower() in _LABELS:
        return _LABELS[text.lower()]
    if _INT.fullmatch(text):
        return int(text.replace("_", "")) if len(text) <= MAX_INT_DIGITS else text
    if _FLOAT.fullmatch(text):
        return float(text)
    return _SPECIAL.get(text.lower(), text)


def parse_json(text: str, shown: str) -> Node:
    """The value in `text`. JSON values carry no lines: the parser does not tell them."""

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise InvalidInput(f"key {quoted(twice)} is given twice; keep one", shown)
        return result

    try:
        value = json.loads(text, object_pairs_hook=mapping, parse_int=_scalar)
    except json.JSONDecodeError as error:
        message = f"cannot read this as JSON: {one_line(error.msg).lower()}" if text.strip() else "the file is empty"
        raise InvalidInput(message, f"{shown}:{error.lineno}") from None
    except RecursionError:
        raise InvalidInput(f"values are nested at most {MAX_DEPTH} deep", shown) from None
    node = _json_node(value, shown, depth=0)
    if node.value is None:
        raise InvalidInput("the file is empty", shown)
    if node.num_values > MAX_JSON_VALUES:
        raise InvalidInput(f"a JSON file holds at most {MAX_JSON_VALUES:,} values; got {node.num_values:,}", shown)
    return node


def node_of(value: Any) -> Node:
    """Plain values of a program as a tree: mappings by words, lists or tuples, text, numbers, true and false."""
    node = _json_node(_plain(value), "", depth=0)
    if node.num_values > MAX_JSON_VALUES:
        raise InvalidInput(f"a mapping holds at most {MAX_JSON_VALUES:,} values; got {node.num_values:,}")
    return node


def _plain(value: Any, depth: int = 0) -> Any:
    """`value` with mappings as dicts and sequences as lists, of what a file could say as well."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"values are nested at most {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise InvalidInput(f"a key is a word; got {quoted(repr(odd[0]))}")
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    message = f"a mapping holds text, numbers, lists and mappings; got {quoted(type(value).__name__)}"
    raise InvalidInput(f"{message}; give the whole as a value, or write that part out")


def _json_node(value: Any, shown: str, depth: int) -> Node:
    if not isinstance(value, dict | list):
        return Node(value)
    if depth == MAX_DEPTH:
        raise InvalidInput(f"values are nested at most {MAX_DEPTH} deep", shown)
    if isinstance(value, list):
        items = [_json_node(item, shown, depth + 1) for item in value]
        return Node(items, num_values=1 + sum(item.num_values for item in items))
    children = {key: _json_node(item, shown, depth + 1) for key, item in value.items()}
    return Node(children, num_values=1 + sum(child.num_values for child in children.values()))
