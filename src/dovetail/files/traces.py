"""The traces of all ranks, PREFIX.0.et and on: found, read once where identical, written; and their process groups."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.comm.trace.nodes import Rank, Traces
from dovetail.errors import InvalidInput
from dovetail.files.chakra import encoded, read_rank
from dovetail.files.text import near_folder, one_line, quoted, read_text
from dovetail.files.written import check_writable, write_bytes, write_file
from dovetail.units import MEBI, format_bytes

MAX_FILE_BYTES = 64 * int(MEBI)
MAX_RANKS = 100_000
_LOG = logging.getLogger(__name__)


def load_traces(prefix: str, groups: str = "") -> Traces:
    """The traces PREFIX.0.et, PREFIX.1.et, ...; files with the same bytes are read once and share their nodes."""
    files = _files(prefix)
    known: dict[bytes, Rank] = {}
    ranks = []
    for rank, file in enumerate(files):
        digest = _digest(file)
        if digest not in known:
            known[digest] = load_rank(file, rank)
        ranks.append(known[digest])
    return Traces(ranks=tuple(ranks), groups=load_groups(Path(groups)) if groups else {})


def load_rank(file: Path, rank: int = 0) -> Rank:
    """The nodes of one trace, in the order of the file; ids, dependencies and values are checked."""
    _check_size(file)
    _LOG.info("reading %s", one_line(str(file)))
    with open(file, "rb") as stream:
        return read_rank(stream, one_line(str(file)), rank)


def write_traces(prefix: str, ranks: Sequence[Rank], *, is_forced: bool) -> None:
    """Writes PREFIX.0.et, PREFIX.1.et, ...; refuses where more ranks of another run would stand beside them."""
    if len(ranks) > MAX_RANKS:
        raise InvalidInput(f"at most {MAX_RANKS:,} ranks; got {len(ranks):,}")
    _check_free(prefix, len(ranks), is_forced=is_forced)
    known: dict[int, bytes] = {}
    for rank, nodes in enumerate(ranks):
        if id(nodes) not in known:
            known[id(nodes)] = encoded(nodes)
        write_bytes(Path(f"{prefix}.{rank}.et"), known[id(nodes)])


def _check_free(prefix: str, num_ranks: int, *, is_forced: bool) -> None:
    after = f"{prefix}.{num_ranks}.et"
    try:
        is_there = Path(after).exists()
    except (OSError, ValueError) as error:
        reason = one_line(str(getattr(error, "strerror", "") or error)).lower()
        raise InvalidInput(f"cannot write {quoted(after)}: {reason}") from None
    if is_there:
        raise InvalidInput(
            f"{quoted(after)} is of another run with more than {num_ranks:,} ranks; remove it, or take another prefix"
        )
    for rank in range(1 if is_forced else num_ranks):
        check_writable(Path(f"{prefix}.{rank}.et"), is_forced=is_forced)


def write_groups(file: Path, groups: Mapping[str, tuple[int, ...]]) -> None:
    """Writes a file of process groups that `load_groups` reads back."""
    write_file(file, json.dumps({name: list(ranks) for name, ranks in groups.items()}, indent=2) + "\n")


def _files(prefix: str) -> list[Path]:
    """PREFIX.0.et and on; a rank that is missing before the last is named."""
    folder, stem = Path(prefix).parent, Path(prefix).name
    pattern = re.compile(re.escape(stem) + r"\.([0-9]{1,6})\.et")
    try:
        found = {int(match[1]) for name in os.listdir(folder) if (match := pattern.fullmatch(name))}
    except (OSError, ValueError) as error:
        reason = one_line(str(getattr(error, "strerror", "") or error)).lower()
        raise InvalidInput(f"cannot list folder {quoted(str(folder))}: {reason}{near_folder(folder)}") from None
    if not found:
        place = f"there is no trace {quoted(f'{stem}.0.et')} in {quoted(str(folder))}"
        raise InvalidInput(f"{place}; give the prefix before .0.et")
    missing = next((rank for rank in range(max(found)) if rank not in found), -1)
    if missing >= 0:
        rule = f"rank {missing} has no trace, and rank {max(found)} has"
        raise InvalidInput(f"{rule}; there is no file {quoted(f'{stem}.{missing}.et')}")
    if len(found) > MAX_RANKS:
        raise InvalidInput(f"at most {MAX_RANKS:,} ranks; got {len(found):,}")
    return [folder / f"{stem}.{rank}.et" for rank in range(len(found))]


def _check_size(file: Path) -> None:
    try:
        num_bytes = file.stat().st_size if file.is_file() else -1
    except (OSError, ValueError):
        num_bytes = -1
    if num_bytes < 0:
        raise InvalidInput(f"{quoted(str(file))} is not a plain file")
    if num_bytes > MAX_FILE_BYTES:
        limit = f"a trace has at most {format_bytes(MAX_FILE_BYTES, 0)}"
        raise InvalidInput(f"{limit}; {quoted(str(file))} has {format_bytes(num_bytes)}")


def _digest(file: Path) -> bytes:
    _check_size(file)
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").digest()
    except OSError as error:
        reason = one_line(error.strerror or "unknown").lower()
        raise InvalidInput(f"cannot read {quoted(str(file))}: {reason}") from None


def load_groups(file: Path) -> dict[str, tuple[int, ...]]:
    """ASTRA-sim's file of process groups: {"name": [ranks, ...], ...}."""
    shown = one_line(str(file))
    try:
        table = json.loads(read_text(file, "--groups"))
    except (ValueError, RecursionError):  # of JSON, or a number of thousands of digits
        raise InvalidInput("a file of groups is JSON, with numbers of ranks in it", shown) from None
    rule = 'a file of groups is {"name": [rank, ...], ...}, each rank once'
    if not isinstance(table, dict):
        raise InvalidInput(rule, shown)
    for name, ranks in table.items():
        is_list = isinstance(ranks, list) and bool(ranks) and all(type(rank) is int and rank >= 0 for rank in ranks)
        if not is_list or len(set(ranks)) != len(ranks):
            raise InvalidInput(rule, f"{shown}: {one_line(name)[:40]}")
    return {name: tuple(sorted(ranks)) for name, ranks in table.items()}
