"""The hash of all that decides what a capture finds: what captures are kept under."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import dovetail
from dovetail.plugins import plugins_digest

TOOLS = ("torch", "transformers", "onnx", "torchvision", "diffusers", "peft")
CODE = ("workload", "importers", "files/captured.py", "files/value_json.py")  # of Dovetail: what a capture follows from


@cache
def code_digest(code: tuple[str, ...] = CODE) -> str:
    """Of Dovetail's own code that captures follow from."""
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for name in code:
        files = [root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


STEP_CODE = ("workload", "importers", "hardware", "cost", "step")  # and what steps do, as code runs


def _version_of(tool: str) -> str:
    try:
        return metadata.version(tool)
    except metadata.PackageNotFoundError:
        return "none"


def _key(*words: str) -> str:
    versions = [f"{tool}=={_version_of(tool)}" for tool in TOOLS]
    own = (dovetail.__version__, code_digest(), plugins_digest(), sys.version, *versions)
    return hashlib.sha256("\0".join((*own, *words)).encode("utf-8", "surrogatepass")).hexdigest()


def config_key(config: Mapping[str, Any], **options: object) -> str:
    """Of a model that a configuration alone decides."""
    return _key("config", json.dumps(config, sort_keys=True, default=repr), repr(sorted(options.items())))


def file_key(digest: str, **options: object) -> str:
    """Of a model that a file alone decides, whose hash `digest` is."""
    return _key("file", digest, repr(sorted(options.items())))


def recording_key(digest: str, **options: object) -> str:
    """Of a module whose first recording has the hash `digest`: what ran, not the code that made it run."""
    return _key("recording", digest, repr(sorted(options.items())))


def step_key(content: str, *words: str) -> str:
    """Of a step of a model whose case is `content`, recorded and priced."""
    return _key("step", code_digest(STEP_CODE), content, *words)
