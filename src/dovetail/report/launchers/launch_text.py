"""Launch text read back: its command, its configuration, and which framework it starts.

What is read is what launchers write, by hand or wrapped for a batch system: one command, and at most one file in JSON,
YAML or TOML. Comments and the lines around them are passed over.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.errors import InvalidInput

STARTS = ("torchrun", "deepspeed", "accelerate", "python3")
_HERE = re.compile(r"cat > \S+ <<'END'\n(.*?)\n\s*END\n", re.DOTALL)
_STARTED_BY = {  # a word of the command that only one framework has
    "pretrain_gpt.py": "megatron-lm",
    "scripts/training/run_recipe.py": "megatron-bridge",
    "torchtitan.train": "torchtitan",
    "accelerate": "fsdp2",
    "deepspeed": "deepspeed",
    "maxtext.trainers.pre_train.train": "maxtext",
    "MaxText.train": "maxtext",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchText:
    """A text as read: `words` of its command in order, and the sections of its configuration."""

    framework: str
    words: tuple[str, ...]
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """Arguments that begin with two dashes, each with the values behind it."""
        found: dict[str, tuple[str, ...]] = {}
        name = ""
        for word in self.words:
            if word.startswith("--"):
                name = word
                found[name] = ()
            elif name:
                found[name] = (*found[name], word)
        return found

    @property
    def settings(self) -> dict[str, str]:
        """Words such as key=value."""
        pairs = (word.partition("=") for word in self.words if "=" in word and not word.startswith("-"))
        return {key: value for key, _, value in pairs}

    def at(self, *path: str, default: Any = None) -> Any:
        """A value of the configuration under its sections."""
        value: Any = self.config
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                return default
            value = value[key]
        return value


class TextFlags:
    """Arguments of a text, as numbers and switches."""

    def __init__(self, flags: Mapping[str, tuple[str, ...]]) -> None:
        self._flags = flags

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def count(self, name: str, default: int = 1) -> int:
        """The whole number behind an argument; raises where it is none."""
        values = self._flags.get(name, ())
        if not values:
            return default
        try:
            return int(values[0])
        except ValueError:
            raise InvalidInput(f"{name} must be a whole number; got {values[0]!r}", "launch_text") from None

    def word(self, name: str, default: str = "") -> str:
        return (self._flags.get(name) or (default,))[0]

    def words(self, name: str) -> tuple[str, ...]:
        return self._flags.get(name, ())


def launch_text_of(text: str) -> LaunchText:
    """`text` as read; raises where it holds no command that a launcher would write."""
    if toml := _toml(text):
        return LaunchText(framework="torchtitan", words=(), config=toml)
    here = _HERE.search(text.replace("\r\n", "\n") + "\n")
    command = next(_commands(text), ())
    framework = next((name for word, name in _STARTED_BY.items() if word in command), "")
    if framework == "megatron-lm" and "--deepspeed" in command:
        framework = "deepspeed"
    if not framework:
        known = "Megatron-LM, Megatron-Bridge, TorchTitan, DeepSpeed, accelerate and MaxText"
        raise InvalidInput(f"no command that starts a framework is in it; read are those of {known}", "launch_text")
    return LaunchText(framework=framework, words=command, config=_config(here.group(1)) if here else {})


def _commands(text: str) -> Iterator[tuple[str, ...]]:
    """Commands that start a framework, their lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        if line.strip().startswith(STARTS):
            try:
                yield tuple(shlex.split(line))
            except ValueError as error:
                raise InvalidInput(f"its command cannot be read: {error}", "launch_text") from None


def _toml(text: str) -> dict[str, Any]:
    """The sections of a job's TOML; nothing where the text is not TOML or has none of them."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    return found if "parallelism" in found else {}


def _config(text: str) -> dict[str, Any]:
    """JSON, or sections and values in YAML as `yaml_text` writes them."""
    stripped = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    try:
        found = json.loads(stripped)
    except json.JSONDecodeError:
        return _yaml(stripped)
    return found if isinstance(found, dict) else {}


def _yaml(text: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    section, depth = tree, 0
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        if not key:
            continue
        indent = len(line) - len(line.lstrip())
        if not value.strip():
            section, depth = tree.setdefault(key, {}), indent
            continue
        place = section if indent > depth else tree
        try:
            place[key] = json.loads(value)
        except json.JSONDecodeError:
            place[key] = value.strip()
    return tree
