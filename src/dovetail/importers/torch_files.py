"""Files while a training script is recorded: it reads them, and nothing that it writes reaches them.

Checkpoints of tensors without numbers would replace real ones. `torch.save`, safetensors and distributed checkpoints
write nothing. Other files that Python code opens for writing are made in a temporary folder, where the script finds
them again. Files that it removes or renames stay as they are.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any
from unittest import mock

import torch
import torch.distributed.checkpoint.state_dict
import torch.distributed.checkpoint.state_dict_saver
from torch.utils._pytree import tree_map_only

from dovetail.errors import InvalidInput
from dovetail.importers.torch_cuda import AWAY
from dovetail.importers.torch_failures import user_line
from dovetail.importers.torch_gpu import Places, held_on_host
from dovetail.units import MEBI

MAX_COPIED_BYTES = 64 * MEBI  # of a file that is opened to be written in place
CHECKPOINTS = "torch.distributed.checkpoint"
# Functions that write or read a checkpoint of tensors, by module: the parameter that names the file.
LEFT_OUT: dict[str, dict[str, str]] = {
    CHECKPOINTS: {
        "save": "checkpoint_id",
        "async_save": "checkpoint_id",
        "load": "checkpoint_id",
        "save_state_dict": "storage_writer",
        "load_state_dict": "storage_reader",
    },
    f"{CHECKPOINTS}.state_dict_saver": {"save": "checkpoint_id", "async_save": "checkpoint_id"},
    f"{CHECKPOINTS}.state_dict_loader": {"load": "checkpoint_id"},
    "safetensors.torch": {"save_file": "filename", "save_model": "filename", "serialize_file": "filename"},
}
# Functions that gather a model's state for a checkpoint: they run, and are no part of the step.
GATHERS = ("get_state_dict", "get_model_state_dict", "get_optimizer_state_dict")
WRITES = frozenset("wax+")
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
Unrecorded = Callable[[], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def kept_files(note: Callable[[str], None], places: Places, unrecorded: Unrecorded) -> Iterator[None]:
    """While it lasts, code changes no file, and `note` takes what was not carried out.

    Checkpoints run within `unrecorded`.
    """
    written = _Written(note)
    with contextlib.ExitStack() as stack:
        stack.callback(written.remove_all)
        for module, functions in LEFT_OUT.items():
            if importlib.util.find_spec(module.partition(".")[0]) is None:
                continue
            holder = importlib.import_module(module)
            for name, parameter in functions.items():
                left_out = _left_out(f"{module}.{name}", getattr(holder, name), parameter, note)
                stack.enter_context(mock.patch.object(holder, name, left_out))
        gathered = importlib.import_module(f"{CHECKPOINTS}.state_dict")
        for name in GATHERS:
            made = _within(unrecorded, getattr(gathered, name))
            stack.enter_context(mock.patch.object(gathered, name, made))
        saved = _Saved(note, places, unrecorded)
        stack.enter_context(mock.patch.object(torch, "save", saved.save))
        stack.enter_context(mock.patch.object(torch, "load", saved.load))
        stack.enter_context(mock.patch.object(builtins, "open", written.open))
        stack.enter_context(mock.patch.object(io, "open", written.open))
        for name, function in written.functions().items():
            stack.enter_context(mock.patch.object(os, name, function))
        stack.enter_context(mock.patch.object(shutil, "rmtree", written.remove_tree))
        yield


def _not_carried_out(call: str, file: Any, note: Callable[[str], None]) -> None:
    named = repr(os.fspath(file)) if isinstance(file, str | os.PathLike) else ""
    note(f"{call}({named}) was not carried out; files stay as they are")


def _left_out(call: str, before: Any, parameter: str, note: Callable[[str], None]) -> Callable[..., Any]:
    try:
        signature = inspect.signature(before)
    except ValueError:  # of a function that is not written in Python
        signature = None

    def nothing(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments if signature else kwargs
        _not_carried_out(call, given.get(parameter), note)
        if not call.endswith("async_save"):
            return None
        done: Future[None] = Future()
        done.set_result(None)
        return done

    return nothing


def _within(unrecorded: Unrecorded, function: Callable[..., Any]) -> Callable[..., Any]:
    def ran(*args: Any, **kwargs: Any) -> Any:
        with unrecorded():
            return function(*args, **kwargs)

    return ran


class _Saved:
    """`torch.save`, which writes nothing, and `torch.load`, which gives what was saved, or reads a real file."""

    def __init__(self, note: Callable[[str], None], places: Places, unrecorded: Unrecorded) -> None:
        self._note, self._places, self._unrecorded = note, places, unrecorded
        self._save, self._load = torch.save, torch.load
        self._objects: dict[str, Any] = {}  # by file, with tensors of the same shapes on the host

    def save(self, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        with self._unrecorded():
            if isinstance(f, io.BytesIO):
                self._save(obj, f, *args, **kwargs)
                return
            is_path = isinstance(f, str | os.PathLike)
            _not_carried_out("torch.save", f if is_path else getattr(f, "name", None), self._note)
            if is_path:
                self._objects[os.path.abspath(f)] = tree_map_only(torch.Tensor, self._held, obj)
                with open(f, "wb"):  # an empty one in the temporary folder, for code that looks whether there is one
                    pass

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        return held_on_host(tensor, self._places) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else tensor

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        with self._unrecorded():
            if isinstance(f, str | os.PathLike) and os.path.abspath(f) in self._objects:
                found = self._objects[os.path.abspath(f)]
            else:
                found = self._load(f, map_location if callable(map_location) else "cpu", *args, **kwargs)
            if map_location is None or callable(map_location) or isinstance(map_location, dict):
                return found
            device = torch.device(map_location)
            if device.type not in AWAY:
                return found
            return tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), found)


class _Written:
    """Files and folders that the script has made, in a temporary folder under their whole paths."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._folder = ""
        self._open, self._rmtree = open, shutil.rmtree
        self._os = {name: getattr(os, name) for name in (*_BY_PATH, *_OF_TWO, "open", "mkdir", "stat", "lstat")}

    def remove_all(self) -> None:
        if self._folder:
            self._rmtree(self._folder, ignore_errors=True)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What stands for functions of `os`."""
        found: dict[str, Callable[..., Any]] = {name: self._by_path(name) for name in _BY_PATH}
        found |= {name: self._of_two(name) for name in _OF_TWO}
        return found | {"open": self.open_number, "mkdir": self.make_folder}

    def _at(self, path: Any) -> str:
        """Where a path is, or would be, in the temporary folder."""
        return self._folder + os.path.abspath(os.fsdecode(path)) if self._folder else ""

    def _is_there(self, path: Any) -> bool:
        with contextlib.suppress(OSError, ValueError):
            self._os["lstat"](path)
            return True
        return False

    def _is_written(self, path: Any) -> bool:
        return bool(self._folder) and self._is_there(self._at(path))

    def _found(self, path: Any) -> Any:
        return self._at(path) if self._is_written(path) else path

    def _is_file(self, path: Any) -> bool:
        """Whether writing to it would change a file: neither a number of an open one, nor a device or a pipe."""
        if not isinstance(path, str | bytes | os.PathLike) or os.fsdecode(path).startswith(("/dev/", "/proc/")):
            return False
        if self._folder and os.path.abspath(os.fsdecode(path)).startswith(self._folder):
            return False
        try:
            mode = self._os["stat"](path).st_mode
        except (OSError, ValueError):
            return True
        return stat.S_ISREG(mode)

    def _target(self, path: Any, *, is_kept: bool) -> str:
        """The file to write to in the temporary folder, with what the real one holds where that is kept."""
        parent = os.path.dirname(os.path.abspath(os.fsdecode(path)))
        if not self._is_there(self._found(parent)):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(path))  # style: ENOENT
        if not self._folder:
            with mock.patch.multiple(os, mkdir=self._os["mkdir"], stat=self._os["stat"], lstat=self._os["lstat"]):
                self._folder = os.path.realpath(tempfile.mkdtemp(prefix="dovetail-"))
        target = self._at(path)
        self._make_parents(target)
        if is_kept and not self._is_there(target) and self._is_there(path):
            if self._os["stat"](path).st_size > MAX_COPIED_BYTES:
                raise InvalidInput(
                    f"the script opens {os.fsdecode(path)!r} to write in it{user_line()}, and files are not changed "
                    "while it is recorded; open it for reading"
                )
            with self._open(path, "rb") as source, self._open(target, "wb") as copy:
                copy.write(source.read())
        return target

    def _make_parents(self, target: str) -> None:
        made = self._folder
        for part in os.path.dirname(target)[len(self._folder) :].split(os.sep):
            made = os.path.join(made, part) if part else made
            if not self._is_there(made):
                self._os["mkdir"](made)

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """`open`, in the temporary folder where it writes or has written."""
        if not self._is_file(file):
            return self._open(file, mode, *args, **kwargs)
        if not WRITES & set(mode):
            return self._open(self._found(file), mode, *args, **kwargs)
        if "x" in mode and self._is_there(file):
            raise FileExistsError(17, "File exists", os.fsdecode(file))  # style: EEXIST
        if "r" in mode and not self._is_there(self._found(file)):
            raise FileNotFoundError(2, "No such file or directory", os.fsdecode(file))  # style: ENOENT
        self._note("files that the script opens for writing are temporary copies; those on disk stay as they are")
        return self._open(self._target(file, is_kept="w" not in mode), mode, *args, **kwargs)

    def open_number(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Any = None) -> int:
        """`os.open`, in the temporary folder where it writes or has written."""
        if dir_fd is None and self._is_file(path):
            is_new = bool(flags & os.O_CREAT)
            if flags & WRITE_FLAGS and (is_new or self._is_there(self._found(path))):
                if flags & os.O_EXCL and self._is_there(path):
                    raise FileExistsError(17, "File exists", os.fsdecode(path))  # style: EEXIST
                path = self._target(path, is_kept=not flags & os.O_TRUNC)
            else:
                path = self._found(path)
        number: int = self._os["open"](path, flags, mode, dir_fd=dir_fd)
        return number

    def make_folder(self, path: Any, mode: int = 0o777, *, dir_fd: Any = None) -> None:
        if dir_fd is None and not self._is_there(path):
            path = self._target(path, is_kept=False)
        self._os["mkdir"](path, mode, dir_fd=dir_fd)

    def remove_tree(self, path: Any, *args: Any, **kwargs: Any) -> None:
        if self._is_written(path):
            with mock.patch.multiple(os, **self._os):
                self._rmtree(self._at(path), *args, **kwargs)
        if self._is_there(path):
            _not_carried_out("shutil.rmtree", path, self._note)

    def _by_path(self, name: str) -> Callable[..., Any]:
        """A function of `os` of one path: of a file that the script has made, or else one that changes nothing."""
        before = self._os[name]

        def called(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            is_path = isinstance(path, str | bytes | os.PathLike) and kwargs.get("dir_fd") is None
            if is_path and self._is_written(path) and not (name in _LISTS and self._is_there(path)):
                return before(self._at(path), *args, **kwargs)
            if is_path and name not in _READS and self._is_there(path):
                _not_carried_out(f"os.{name}", path, self._note)
                return None
            return before(path, *args, **kwargs)

        return called

    def _of_two(self, name: str) -> Callable[..., Any]:
        before = self._os[name]

        def called(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_written(source):
                before(self._at(source), self._target(target, is_kept=False), *args, **kwargs)
            elif self._is_there(source) or name == "symlink":
                _not_carried_out(f"os.{name}", target, self._note)
            else:
                before(source, target, *args, **kwargs)  # which raises

        return called


_READS = ("stat", "lstat", "access", "listdir", "scandir")
_LISTS = ("listdir", "scandir")
_BY_PATH = (*_READS, "remove", "unlink", "rmdir", "truncate", "chmod", "utime")
_OF_TWO = ("rename", "replace", "link", "symlink")
