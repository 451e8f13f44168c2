"""Captures that are kept from one time to the next, under a hash of all that decides them.

An entry is a model file behind its own hash. One that does not read is as good as none, and a folder that cannot be
written to is logged and no error: a capture does not fail because of its cache.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.files.captured import captured_of, captured_text
from dovetail.files.entry import Document, Entry
from dovetail.files.text import JSON_LIMIT_BYTES, one_line
from dovetail.files.tree import parse_json
from dovetail.files.written import write_bytes
from dovetail.workload.recorded.captured import Captured

MAX_ENTRIES = 200  # the oldest go; some 100 kB each
SUFFIX = ".capture"
_LOG = logging.getLogger(__name__)


def cache_folder() -> Path:
    """The user's own, as the XDG base directory specification has it: $XDG_CACHE_HOME, or ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path("~/.cache").expanduser()
    return base / "dovetail" / "captures"


def kept_capture(key: str) -> Captured | None:
    """What was kept under `key`; nothing where nothing was, or what is there was damaged."""
    file = _file(key)
    try:
        with open(file, "rb") as stream:
            data = stream.read(JSON_LIMIT_BYTES + 100)
    except (OSError, ValueError):
        return None
    digest, _, text = data.partition(b"\n")
    if digest != _digest(text):
        _LOG.info("the kept capture %s is damaged, so the model is captured again", one_line(str(file)))
        return None
    try:
        found = captured_of(Entry(document=Document(is_closed=True), node=parse_json(text.decode(), file.name)))
    except (DovetailError, UnicodeDecodeError):  # written by a Dovetail whose values were others
        return None
    with suppress(OSError):
        os.utime(file)  # so the oldest are the least recently used
    _LOG.info("read the kept capture %s", one_line(str(file)))
    return found


def keep_capture(key: str, captured: Captured) -> str:
    """Keeps `captured` under `key`; in words why it could not be kept, empty where it was."""
    text = captured_text(captured).encode()
    file = _file(key)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(file, _digest(text) + b"\n" + text)
        _drop_oldest(file.parent)
    except OSError as error:
        reason = one_line(str(error.strerror or error)).lower()
        return f"this capture is not kept: cannot write to {one_line(str(file.parent))}: {reason}"
    except DovetailError as error:
        return f"this capture is not kept: {error.message}"
    return ""


def _file(key: str) -> Path:
    return cache_folder() / f"{key}{SUFFIX}"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _drop_oldest(folder: Path) -> None:
    entries = []
    for file in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError):  # another process dropped it
            entries.append((file.stat().st_mtime_ns, file))
    for _, file in sorted(entries)[:-MAX_ENTRIES]:
        with suppress(OSError):
            file.unlink()
