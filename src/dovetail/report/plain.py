"""The plain data that an answer is as JSON, apart from what makes one: who only passes it on imports no physics."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # keys end in units; docs/reference/json.md lists them
SCHEMA_KEY = "schema_version"
SCHEMA_VERSION = 2  # of all that --json prints: grows when a key is renamed or removed. 0.1 had the first, unsaid


def versioned(record: Record) -> Record:
    """`record` with the version of its keys before all of them."""
    return {SCHEMA_KEY: SCHEMA_VERSION} | {key: value for key, value in record.items() if key != SCHEMA_KEY}
