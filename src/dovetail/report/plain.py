"""The plain data that an answer is as JSON, apart from what makes one: who only passes it on imports no physics."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # keys end in units; docs/reference/json.md lists them
