"""Completion in shells: `dovetail completion SHELL`, and the names that may stand where the cursor is.

Names come from the source of the catalogues, read as text: nothing is imported, so that a tab is quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DOVETAIL_COMPLETE"  # Typer's, by the name of the program
_REGISTERED = re.compile(r"""^@?\w+\.register\(["']([^"']+)["']\)""", re.MULTILINE)

MODELS, CHIPS = "dovetail.workload.models", "dovetail.hardware.catalog"
CLUSTERS, PLANS = "dovetail.hardware.clusters", "dovetail.parallel.recipes"
PACKAGES: dict[str, tuple[str, ...]] = {  # of options and arguments, where their names are registered
    "--model": (MODELS,),
    "--cluster": (CLUSTERS,),
    "--plan": (PLANS,),
    "--chip": (CHIPS,),
    "--base": (CHIPS,),
    "--topology": (CLUSTERS,),
    "--framework": ("dovetail.report.launchers.frameworks",),
    "--algorithm": ("dovetail.search.algorithms",),
    "network --algorithm": ("dovetail.comm.events.schedules",),
    "mine MODEL|SPEC": (MODELS,),
    "codesign [MODEL|SPEC]": (MODELS,),
    "pareto [MODEL|SPEC]": (MODELS,),
    "schedule MODEL": (MODELS,),
    "show NAME": (MODELS, CHIPS, CLUSTERS, PLANS),
}
LABELS: dict[str, tuple[str, ...]] = {  # and of others the words that they take
    "--kind": ("model", "chip", "cluster", "plan"),
    "--recompute": ("none", "norm-activation", "selective", "selective-op", "full"),
    "--objective": ("time", "tokens/s", "tokens/s/$", "tokens/J", "headroom"),
    "--endpoint": ("sm", "dma", "ace", "ici", "in-switch", "near-memory", "ideal"),
    "--metric": ("throughput", "perf/tdp", "tokens/J", "$/token"),
    "--stages": ("one", "mosaic", "pooled"),
    "--policy": ("fifo", "lifo", "priority"),
    "--setting": ("alone", "kernel", "stream"),
    "--pass": ("forward", "input-grad", "weight-grad"),
    "network --algorithm": ("tree", "nvls-tree", "pat"),  # of libraries, beside those of events
    "network --engine": ("events", "closed", "library"),
    "trace run --engine": ("events", "astra-sim"),
    "validate SET|FILE|FOLDER": ("h200", "array-sims", "dies", "astra-sim", "published-gemm", "published"),
    "reproduce PAPER": ("ace", "phaze", "phaze-dp", "wham"),
    "completion SHELL": SHELLS,
}


def completion_script(shell: str) -> str:
    """What a shell reads to complete `dovetail`."""
    if shell not in SHELLS:
        raise InvalidInput(f"no shell is named {shell!r}{did_you_mean(shell, SHELLS)}")
    typers: Any = import_module("typer.completion")
    script: str = typers.get_completion_script(prog_name="dovetail", complete_var=VARIABLE, shell=shell)
    return script


def answer_shells() -> None:
    """Has Typer answer the shells that it has scripts for."""
    typers: Any = import_module("typer.completion")
    typers.completion_init()


def registered(package: str) -> Iterator[str]:
    """The names that the modules of a package register, by their text, and those of its entries that are files."""
    found = find_folder(package)
    for file in sorted(found.glob("*.py")):
        yield from _REGISTERED.findall(file.read_text(encoding="utf-8"))
    yield from (file.stem for file in sorted(found.glob("*.yaml")))


def find_folder(package: str) -> Path:
    """Where a package of ours lies, without importing it."""
    root = find_spec("dovetail")
    assert root is not None
    assert root.origin is not None
    return Path(root.origin).parent.joinpath(*package.split(".")[1:])


def names_for(path: str, shown: str) -> tuple[str, ...]:
    """What may stand for an option or argument of the command at `path`; nothing where that is anything."""
    command = path.partition(" ")[2]
    for key in (f"{command} {shown}", shown):
        if key in PACKAGES:
            found = {name for package in PACKAGES[key] for name in registered(package)}
            return tuple(sorted({*found, *LABELS.get(key, ())}))
        if key in LABELS:
            return LABELS[key]
    return ()


def complete_names(command: Any, path: str) -> None:
    """Has the parameters of `command` completed by `names_for`, called at a tab."""
    for param in command.params:
        shown = [word for word in param.opts if word.startswith("--")] or [str(param.metavar)]
        if shown[0] in {key.rpartition(" ")[2] for key in (*PACKAGES, *LABELS)}:
            # Typer takes completions from functions of its own signature; a parameter may answer itself in all versions
            setattr(param, "shell_complete", partial(_completed, path, shown[0]))  # noqa: B010


def _completed(path: str, shown: str, _context: Any, incomplete: str) -> list[Any]:
    return list(_items(name for name in names_for(path, shown) if name.startswith(incomplete)))


def _items(names: Iterable[str]) -> Iterator[Any]:
    try:
        from typer._click.shell_completion import CompletionItem
    except ImportError:  # Typer before it had a copy of Click
        from click.shell_completion import CompletionItem  # type: ignore[assignment]
    return map(CompletionItem, names)
