"""A collective on a network as the input files of ASTRA-sim: network, system, traces and groups."""

from __future__ import annotations

from pathlib import Path

from dovetail.comm.one_collective import CollectiveJob
from dovetail.comm.trace.from_network import astra_job
from dovetail.files.astra import network_text, system_text
from dovetail.files.traces import write_groups, write_traces
from dovetail.files.written import check_writable, write_file


def write_astra_files(prefix: str, job: CollectiveJob, *, is_forced: bool) -> str:
    """Writes the files, all of which begin with `prefix`; the arguments of `dovetail trace run` that run them."""
    theirs = astra_job(job)
    network, system, members = (Path(f"{prefix}.{end}") for end in ("network.yml", "system.json", "groups.json"))
    for file in (network, system, *((members,) if theirs.traces.groups else ())):
        check_writable(file, is_forced=is_forced)
    write_traces(prefix, theirs.traces.ranks, is_forced=is_forced)
    write_file(network, network_text(theirs.system.dims))
    write_file(system, system_text(theirs.system))
    groups = ""
    if theirs.traces.groups:
        write_groups(members, theirs.traces.groups)
        groups = f" --groups {prefix}.groups.json"
    return f"{prefix} --topology {prefix}.network.yml --system {prefix}.system.json{groups}"
