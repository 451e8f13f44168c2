"""A profile from a file: the trace of PyTorch's profiler (.json or .json.gz), or a Chakra trace (.et)."""

from __future__ import annotations

import gzip
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.profiles.aten_calls import NO_SHAPES
from dovetail.files.profiles.call_tree import nested_tree
from dovetail.files.profiles.chakra_profile import read_chakra
from dovetail.files.profiles.json_stream import members
from dovetail.files.profiles.kineto import EVENTS, Events
from dovetail.files.profiles.kineto_ops import profile_of
from dovetail.files.text import is_file, near_file, one_line, quoted
from dovetail.hardware.measured import Profile
from dovetail.units import GIBI, KIBI

MAX_TEXT_BYTES = int(GIBI)  # once unpacked
_BEGINNING_BYTES = int(64 * KIBI)
_GZIP = b"\x1f\x8b"
_LOG = logging.getLogger(__name__)


def names_trace(file: Path) -> bool:
    """Whether a file that stands looks like a trace of PyTorch's profiler; one that is packed does, whatever it is."""
    if not is_file(file):
        return False
    if file.name.lower().endswith((".json.gz", ".pt.trace.json", ".et")):
        return True
    if file.suffix.lower() != ".json":
        return False
    try:
        with open(file, "rb") as stream:
            beginning = stream.read(_BEGINNING_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return False
    return f'"{EVENTS}"' in beginning or ('"deviceProperties"' in beginning and '"schemaVersion"' in beginning)


def load_profile(file: Path, *, needs_operators: bool = True) -> Profile:
    """The profile in `file`; raises where it holds no operator that was measured, with one line that says why.

    Where it need not have any, a trace with whole steps alone is one too.
    """
    shown = one_line(str(file))
    _LOG.info("reading %s", shown)
    try:
        with _opened(file) as stream:
            if file.suffix.lower() == ".et":
                events, tree = read_chakra(stream)
            else:
                events = _events(stream)
                tree = nested_tree(events)
        profile = profile_of(events, tree, one_line(file.name))
        if needs_operators or not profile.steps:
            _check_holds(profile)
    except DovetailError as error:
        raise type(error)(error.message, shown) from None
    return profile


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        if file.is_dir():
            raise InvalidInput(f"{quoted(str(file))} is a folder; name a trace in it")
        if file.exists() and not file.is_file():
            raise InvalidInput(f"{quoted(str(file))} is not a plain file; write it to disk first")
        with open(file, "rb") as plain:
            is_packed = plain.read(len(_GZIP)) == _GZIP
            plain.seek(0, os.SEEK_SET)
            if is_packed:
                with gzip.open(plain) as stream:
                    yield stream  # type: ignore[misc]  # a GzipFile reads as a BinaryIO does
            else:
                yield plain
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {quoted(str(file))}{near_file(file)}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InvalidInput("this is no whole gzip file; it ends early or is damaged") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "that cannot be a file's name"
        raise InvalidInput(f"cannot read file {quoted(str(file))}: {one_line(str(reason)).lower()}") from None


def _events(stream: BinaryIO) -> Events:
    events, keys = Events(), set()
    for key, value in members(stream, EVENTS, MAX_TEXT_BYTES):
        if key == "schema" and "nodes" not in keys and EVENTS not in keys:
            raise InvalidInput(
                "this is PyTorch's execution trace, which has no times; give what export_chrome_trace of its profiler"
                " writes, or the .et that Chakra makes of both"
            )
        keys.add(key)
        events.take(key, value)
    if EVENTS not in keys:
        raise InvalidInput(f"this is no trace of PyTorch's profiler: it has no {EVENTS}")
    return events


def _check_holds(profile: Profile) -> None:
    """Raises where nothing in the profile could be compared, and says what there is."""
    if profile.ops or profile.collectives:
        return
    if not profile.left_out:
        raise InvalidInput("the trace holds no operator; profile with ProfilerActivity.CPU, and .CUDA on a GPU")
    if any(one.why == NO_SHAPES for one in profile.left_out):
        raise InvalidInput(f"the trace does not state what its operators are: {NO_SHAPES}")
    first = ", ".join(f"{one.name} ({one.why})" for one in profile.left_out[:3])
    raise InvalidInput(f"no operator of the trace is one of ours; it has {first}")
