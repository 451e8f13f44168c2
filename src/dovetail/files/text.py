"""Bytes on disk into text, refusing what cannot be a spec before reading it."""

from __future__ import annotations

import logging
import os
import stat
from itertools import islice
from pathlib import Path

from dovetail.errors import InvalidInput, did_you_mean, shown
from dovetail.units import MEBI, format_bytes

YAML_LIMIT_BYTES = int(MEBI)
JSON_LIMIT_BYTES = 8 * int(MEBI)  # Hugging Face configurations of image models list every label
CSV_LIMIT_BYTES = 50 * int(MEBI)
SUFFIXES = (".yaml", ".yml", ".json")
LOG_SUFFIXES = (".txt", ".log", ".out")
MAX_SIBLINGS = 1000
_LOG = logging.getLogger(__name__)


def quoted(text: str) -> str:
    """`text` in quotes on one line, cut short where it is long."""
    return shown(text)


def one_line(text: str) -> str:
    """`text` without line breaks, control characters and the like, whatever names it was made of."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def is_file(file: Path) -> bool:
    """Whether `file` stands; a name that no file can have names none."""
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def read_text(file: Path, where: str) -> str:
    """The text of `file`; `where` is the place that named it, for the error when it cannot be had."""
    return decoded(read_bytes(file, where), file)


def read_bytes(file: Path, where: str) -> bytes:
    """What `file` holds, up to the limit of its kind; `where` as of `read_text`."""
    try:
        status = os.stat(file)
        _check_kind(file, status, where)
        with open(file, "rb") as stream:
            data = stream.read(_limit_bytes(file) + 1)
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {quoted(str(file))}{near_file(file)}", where) from None
    except PermissionError:
        raise InvalidInput(f"file {quoted(str(file))} may not be read; check its permissions", where) from None
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be one, such as one with a NUL in it
        reason = getattr(error, "strerror", None) or "that cannot be a file's name"
        raise InvalidInput(f"cannot read file {quoted(str(file))}: {one_line(str(reason)).lower()}", where) from None
    _check_size(file, len(data), where)
    _LOG.info("read %s, %s bytes", one_line(str(file)), f"{len(data):,}")
    return data


def _limit_bytes(file: Path) -> int:
    known = {".json": JSON_LIMIT_BYTES} | dict.fromkeys((".csv", *LOG_SUFFIXES), CSV_LIMIT_BYTES)
    return known.get(file.suffix.lower(), YAML_LIMIT_BYTES)


def _check_kind(file: Path, status: os.stat_result, where: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{quoted(str(file))} is a folder; name a file in it", where)
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{quoted(str(file))} is not a plain file; write it to disk first", where)
    _check_size(file, status.st_size, where)


def _check_size(file: Path, num_bytes: int, where: str) -> None:
    limit_bytes = _limit_bytes(file)
    if num_bytes > limit_bytes:
        kinds = {".json": "JSON file", ".csv": "CSV file", ".py": "plugin"}
        kind = (kinds | dict.fromkeys(LOG_SUFFIXES, "log")).get(file.suffix.lower(), "spec file")
        raise InvalidInput(
            f"a {kind} has at most {format_bytes(limit_bytes, 0)}; {quoted(str(file))} has {format_bytes(num_bytes)}",
            where,
        )


def decoded(data: bytes, file: Path) -> str:
    """The text that is in a file; `file` is named in errors."""
    where = one_line(str(file))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput("a file must be UTF-8 text, and this one is UTF-16; save it as UTF-8", where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            "a file must be UTF-8 text, and this one is not; save it as UTF-8", f"{where}:{line}"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidInput("a file must be text, and this one holds a NUL character", f"{where}:{line}")
    return text


def near_file(file: Path) -> str:
    """The files beside a missing one that it may have been meant to name."""
    folder = file.parent
    try:
        with os.scandir(folder) as entries:
            names = [one_line(entry.name) for entry in islice(entries, MAX_SIBLINGS) if _is_visible(entry.name)]
    except (OSError, ValueError):
        return f"; there is no folder {quoted(str(folder))} either{near_folder(folder)}" if not folder.is_dir() else ""
    hint = did_you_mean(file.name, names)
    return hint if "did you mean" in hint else ""  # a list of whatever lies there says nothing


def near_folder(folder: Path) -> str:
    """The folders beside a missing one that it may have been meant to name."""
    try:
        with os.scandir(folder.parent) as entries:
            names = [one_line(entry.name) for entry in islice(entries, MAX_SIBLINGS) if entry.is_dir()]
    except (OSError, ValueError):
        return ""
    hint = did_you_mean(folder.name, names)
    return hint if "did you mean" in hint else ""


def _is_visible(name: str) -> bool:
    return name.endswith((*SUFFIXES, ".csv", ".py", ".onnx", ".gz", ".et")) and not name.startswith(".")
