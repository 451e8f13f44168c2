"""Plugins: one Python file of the user's that registers a chip, a model, an operator, a cost, a collective, ...

A plugin is code and runs with the rights of whoever names it. It is known by what stood in the file when it was read:
that text is run here and in every worker, and its hash is part of what results are kept under. Files are read in
`files.plugins`; nothing here touches a disk.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from dovetail.errors import DovetailError, InvalidInput
from dovetail.registry import Owner, registering, withdraw


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A file as it was read."""

    path: str  # as errors call it
    source: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def module_name(self) -> str:
        """What Python knows it by, in every process: what a worker is sent may refer to it."""
        stem = re.sub(r"\W", "_", self.path.replace("\\", "/").rpartition("/")[2].removesuffix(".py"))
        return f"dovetail_plugin_{stem}_{self.digest[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """A plugin that runs in this process, with what it registered."""

    plugin: Plugin
    owner: Owner

    @property
    def registered(self) -> tuple[str, ...]:
        """Such as "chip my-chip"."""
        return tuple(f"{registry.noun} {name}" for registry, name in self.owner.entries)


_loaded: list[Loaded] = []
_one_at_a_time = threading.RLock()  # a Dask worker may have several threads


def loaded_plugins() -> tuple[Plugin, ...]:
    """All that run in this process, in the order they were loaded."""
    return tuple(one.plugin for one in _loaded)


def plugins_digest() -> str:
    """A hash of what stands in all of them, whatever their order; empty where there are none."""
    if not _loaded:
        return ""
    return hashlib.sha256("\0".join(sorted(one.plugin.digest for one in _loaded)).encode()).hexdigest()


def load(plugin: Plugin) -> Loaded:
    """Runs `plugin` and keeps what it registers; once, however often it is named.

    Raises `InvalidInput`, with the line of the file, where it raises, takes a name that is taken, or registers nothing;
    then nothing of it stays.
    """
    with _one_at_a_time:
        return _known(plugin) or _new(plugin)


def _known(plugin: Plugin) -> Loaded | None:
    for known in _loaded:
        if known.plugin == plugin:
            return known
        if known.plugin.path == plugin.path:
            message = "this plugin was loaded before, and the file has changed since"
            raise InvalidInput(f"{message}; start again, so that old and new numbers cannot mix", plugin.path)
    return None


def _new(plugin: Plugin) -> Loaded:
    owner, module = Owner(plugin.path), ModuleType(plugin.module_name)
    module.__file__ = plugin.path
    sys.modules[plugin.module_name] = module
    try:
        with registering(owner):
            _run(plugin, module)
            if not owner.entries:
                message = "this plugin registers nothing; see docs/howto/plugins.md for what it may register"
                raise InvalidInput(message, plugin.path)
    except BaseException:
        del sys.modules[plugin.module_name]
        raise
    found = Loaded(plugin=plugin, owner=owner)
    _loaded.append(found)
    return found


def _run(plugin: Plugin, module: ModuleType) -> None:
    try:
        exec(compile(plugin.source, plugin.path, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        if error.filename != plugin.path:  # of something that it imports
            raise InvalidInput(f"the plugin raises {_words(error)}", _place(error, plugin.path)) from error
        raise InvalidInput(f"the plugin is no Python: {error.msg}", f"{plugin.path}:{error.lineno or 1}") from None
    except DovetailError as error:
        raise type(error)(error.message, _placed(_place(error, plugin.path), error.where)) from error
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"the plugin raises {_words(error)}", _place(error, plugin.path)) from error


def load_all(plugins: tuple[Plugin, ...]) -> None:
    """Runs what another process runs, in its order: how a worker begins."""
    for plugin in plugins:
        load(plugin)


def forget(num_kept: int = 0) -> None:
    """Takes out the plugins that were loaded last, down to `num_kept` of them."""
    while len(_loaded) > num_kept:
        last = _loaded.pop()
        withdraw(last.owner)
        sys.modules.pop(last.plugin.module_name, None)


@contextmanager
def blamed() -> Iterator[None]:
    """What the code of a plugin raises within, as one line that names the plugin, its function and the line."""
    try:
        yield
    except Exception as error:
        told = fault_of(error)
        if told is None:
            raise
        raise told from error


def fault_of(error: BaseException) -> DovetailError | None:
    """`error` as whoever wrote the plugin should read it; none where no plugin was at work, or it says so already."""
    frames = _frames(error, tuple(one.plugin.path for one in _loaded))
    if not frames:
        return None
    last = frames[-1]
    place = f"{last.filename}:{last.lineno}"
    if isinstance(error, DovetailError):
        return None if error.where else type(error)(error.message, place)
    return InvalidInput(f"{last.name} of the plugin raises {_words(error)}", place)


def _words(error: BaseException) -> str:
    """As the last line of a traceback, on one line."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


def _place(error: BaseException, path: str) -> str:
    """The last line of a plugin that `error` passed through while it was loaded."""
    frames = _frames(error, (path,))
    return f"{path}:{frames[-1].lineno}" if frames else path


def _frames(error: BaseException, paths: tuple[str, ...]) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in paths]


def _placed(place: str, where: str) -> str:
    return f"{place}: {where}" if where else place
