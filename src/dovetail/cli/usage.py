"""Wrong usage of a command, in our words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

import typer

from dovetail.errors import InvalidInput

# Typer has its own copy of Click's errors in some versions and Click's in others; this is their base in both.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)")
_NEGATIVE = re.compile(r"-[0-9]")  # of a number among arguments, Typer names the first digit alone
_BY_OPTION = {
    "dovetail simulate": "models, clusters and plans are named by --model, --cluster and --plan",
    "dovetail sweep": "models, clusters and plans are named by --model, --cluster and --plan",
    "dovetail launch": "models, clusters and plans are named by --model, --cluster and --plan",
    "dovetail plan": "models and clusters are named by --model and --cluster",
}

# Options by the words of other tools, and what they are called here.
_OTHER_WORDS = {
    **dict.fromkeys(("--gpus", "--num-gpus", "--ngpus", "--world-size", "--nproc", "--num-devices"), "--devices"),
    **dict.fromkeys(("--gbs", "--global-batch-size", "--batch-size", "--train-batch-size"), "--global-batch"),
    **dict.fromkeys(("--mbs", "--micro-batch-size", "--micro-batch"), "--microbatch"),
    **dict.fromkeys(("--seq-len", "--seq-length", "--sequence-length", "--context-length"), "--seq"),
    **dict.fromkeys(("--inference", "--eval", "--evaluate", "--forward"), "--forward-only"),
    **dict.fromkeys(("--tensor-model-parallel-size", "--tensor-parallel-size", "--tensor-parallel"), "--tp"),
    **dict.fromkeys(("--pipeline-model-parallel-size", "--pipeline-parallel-size", "--pipeline-parallel"), "--pp"),
    **dict.fromkeys(("--context-parallel-size", "--context-parallel"), "--cp"),
    **dict.fromkeys(("--expert-model-parallel-size", "--expert-parallel"), "--ep"),
    **dict.fromkeys(("--data-parallel-size", "--data-parallel"), "--dp"),
    **dict.fromkeys(("--zero-stage", "--zero1", "--use-distributed-optimizer"), "--zero"),
    **dict.fromkeys(("--dtype", "--precision"), "--compute"),
    **dict.fromkeys(("--cost", "--usd"), "--price"),
    **dict.fromkeys(("--lora", "--lora-r", "--lora-dim", "--peft", "--lora-alpha"), "--lora-rank"),
    **dict.fromkeys(("--target-modules", "--lora-target-modules"), "--lora-targets"),
    **dict.fromkeys(("--max-memory", "--memory-limit", "--memory-fraction", "--margin"), "--headroom"),
    **dict.fromkeys(("--gradient-checkpointing", "--activation-checkpointing", "--checkpointing"), "--recompute full"),
    **dict.fromkeys(("--quantile", "--percentile", "--risk"), "--rank-by"),
    **dict.fromkeys(("--cluster", "--network", "--devices"), "--topology dgx-h100x64"),  # of `network`
}


def check_values(arguments: list[str]) -> None:
    """Refuses empty values, which Typer takes for options that were left out: mostly a shell's variable without one."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        option = word.removesuffix("=") if word.startswith("--") else before
        if word and not (word.startswith("--") and word.endswith("=")):
            continue
        what = f"the value of {option}" if option.startswith("--") else "an argument"
        raise InvalidInput(f"{what} is empty; give it one, or leave it out")


def check_needed(option: str, of: Mapping[str, bool], *, is_given: bool) -> None:
    """Raises where an option was typed and none of those that it is of, without which it changes nothing."""
    if is_given and not any(of.values()):
        names = " or ".join(of)
        raise InvalidInput(f"{option} needs {names}; pass {names} too, or leave {option} out")


def _closest(word: str, options: list[str]) -> list[str]:
    """Of the close names that Typer finds the closest first, and no far ones beside a near one."""
    near = difflib.get_close_matches(word, options, n=3, cutoff=0.75)
    return near or sorted(options)


def path_of(error: Any) -> str:
    """The command that was typed wrongly."""
    return str(error.ctx.command_path) if getattr(error, "ctx", None) else "dovetail"


def usage(error: Any) -> str:
    """Typer's words for wrong usage, put as we put ours."""
    message = str(getattr(error, "message", "")) or error.format_message()
    other = _OTHER_WORDS.get(str(getattr(error, "option_name", "")).partition("=")[0], "")
    if "." in str(getattr(error, "option_name", "")) and path_of(error) == "dovetail sweep":
        message = f"{message}; a key of a spec is varied by --over {str(error.option_name).lstrip('-')}=VALUES"
    elif other and any(other.partition(" ")[0] in each.opts for each in error.ctx.command.params):
        message = f"{message}; here it is {other}"
    elif getattr(error, "option_name", "") == "--spec" and path_of(error) in (*_BY_OPTION, "dovetail compare"):
        message = f"{message}; a spec file needs no option before it"
    elif close := getattr(error, "possibilities", None):
        message = f"{message}; did you mean {' or '.join(_closest(str(error.option_name), close))}?"
    elif type(error) is not USAGE_ERROR:
        message = error.format_message()
    message = message.replace(". Did you mean", "; did you mean").rstrip(".")
    path = path_of(error)
    if path == "dovetail op" and _NEGATIVE.fullmatch(str(getattr(error, "option_name", ""))):
        message = "sizes must be at least 1; got one below 0"
    if extra := _EXTRA.fullmatch(message):
        message = "; ".join(filter(None, (f"there is no place for {extra[1]}", _BY_OPTION.get(path, ""))))
    return f"{message[:1].lower()}{message[1:]} (see {path} --help)"
