"""What there is to capture, as a command names it: a factory in a module or file, a configuration, an ONNX file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import dovetail
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.text import near_file, one_line, quoted

CONFIG, ONNX, CODE = ".json", ".onnx", ".py"
FILE_MODULE = "dovetail_captured_"  # what Python knows a file by that was named; its own name may be taken
MAX_WORDS = 200  # characters of the text of another library's error
OFFLINE_WAY = "nothing is fetched while a model is captured, so build it from its configuration alone"
_WAY = "name package.module:factory, file.py:factory, a Hugging Face config.json or a model.onnx"


def is_config(target: str) -> bool:
    return target.lower().endswith(CONFIG)


def is_onnx(target: str) -> bool:
    return target.lower().endswith(ONNX)


def check_target(target: str) -> None:
    """Raises where `target` cannot name anything to capture."""
    if is_config(target) or is_onnx(target):
        return
    place, _, factory = target.rpartition(":")
    if not place or not factory.isidentifier():
        hint = f"; {_WAY}"
        if target.lower().endswith(CODE):
            hint = f"; name its factory: {one_line(target)}:NAME, or run it as a job: --world-size 64"
        raise InvalidInput(f"{quoted(target)} is nothing to capture{hint}")


def factory_of(target: str) -> Any:
    """What `target` names in a module or file, whose code runs; the current folder can be imported from."""
    place, _, name = target.rpartition(":")
    is_file = place.lower().endswith(CODE) or "/" in place or os.sep in place
    with blamed(f"importing {one_line(place)}"):
        module = _from_file(Path(place)) if is_file else _from_name(place)
    if not hasattr(module, name):
        known = [known for known in vars(module) if not known.startswith("_")]
        raise InvalidInput(f"{one_line(place)} has no {quoted(name)}{did_you_mean(name, known)}")
    return getattr(module, name)


def _from_name(name: str) -> ModuleType:
    _importable(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            message = f"there is no module {quoted(name)}, neither here nor installed"
            raise InvalidInput(f"{message}; run this in its folder, or name its file as in file.py:factory") from None
        raise


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise InvalidInput(f"there is no file {quoted(str(file))}{near_file(file)}")
    _importable(os.getcwd())
    _importable(str(file.resolve().parent))
    name = FILE_MODULE + "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{quoted(str(file))} is no Python file; its name ends in {CODE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


@contextmanager
def blamed(doing: str) -> Iterator[None]:
    """What the user's code raises within, as one line that says where."""
    try:
        yield
    except DovetailError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{doing} raises {_words(error)}", _line(error)) from error


def _words(error: BaseException) -> str:
    """As the last line of a traceback, on one line; long ones are cut."""
    words = " ".join("".join(traceback.format_exception_only(error)).split())
    hint = f"; {OFFLINE_WAY}" if "offline" in words.lower() else ""
    return (words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 3] + "...") + hint


@cache
def _library_folders() -> tuple[str, ...]:
    paths = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = os.path.dirname(os.path.abspath(dovetail.__file__))
    return tuple({os.path.realpath(path) + os.sep for path in (*paths, own) if path})


def _is_own_file(file: str) -> bool:
    """Whether it is the user's: of no library, not Python's and not Dovetail's."""
    return bool(file) and not file.startswith("<") and not os.path.realpath(file).startswith(_library_folders())


def _line(error: BaseException) -> str:
    """The last line of the user's own code that `error` passed through: neither Dovetail's nor a library's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{one_line(error.filename)}:{error.lineno or 1}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own_file(frame.filename)]
    return f"{one_line(own[-1].filename)}:{own[-1].lineno}" if own else ""
