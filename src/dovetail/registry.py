"""Names for things that live one to a file: saving the file is all it takes to be found.

A file of the user's, a plugin, registers the same way; what it registered is known to be its own (`plugins.py`).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dovetail.errors import DovetailError, InvalidInput, did_you_mean

R = TypeVar("R")
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Owner:
    """Who registers: a plugin, known by the file it was read from, and what it has registered so far."""

    path: str
    entries: list[tuple[Registry[Any], str]] = field(default_factory=list)


_owner: ContextVar[Owner | None] = ContextVar("owner", default=None)  # none: the built-ins
_forgetters: list[Callable[[], None]] = []


class Registry(Generic[T]):
    """Maps names to values registered by the modules of one package, imported on first look-up.

    Of what a plugin registers `check` raises where it is not what the registry holds. `added` and `dropped` are for
    callers that keep entries in tables of their own. Where entries are files beside those modules, `filed_by` names the
    module that reads them: one of the edges, which nothing above them imports, and which is found as entries are.
    """

    def __init__(
        self,
        noun: str,
        package: str = "",
        *,
        check: Callable[[str, T], None] | None = None,
        added: Callable[[T], None] | None = None,
        dropped: Callable[[T], None] | None = None,
        filed_by: str = "",
    ) -> None:
        self.noun = noun
        self._package, self._filed_by = package, filed_by
        self._check, self._added, self._dropped = check, added, dropped
        self._entries: dict[str, T] = {}
        self._owners: dict[str, Owner] = {}
        self._loaded = not package

    def register(self, name: str) -> Callable[[T], T]:
        def remember(value: T) -> T:
            owner = _registering()
            if owner is not None:
                self._check_own(name, value, owner)
            assert name not in self._entries, f"two {self.noun}s are named {name!r}"
            self._entries[name] = value
            if self._added is not None:
                self._added(value)
            if owner is not None:
                self._owners[name] = owner
                owner.entries.append((self, name))
            return value

        return remember

    def names(self) -> tuple[str, ...]:
        self._load()
        return tuple(sorted(self._entries))

    def owner(self, name: str) -> str:
        """The file of the plugin that registered `name`; empty for a built-in."""
        return self._owners[name].path if name in self._owners else ""

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._entries

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._entries:
            raise InvalidInput(f"no {self.noun} is named {name!r}{did_you_mean(name, self._entries)}")
        return self._entries[name]

    def items(self) -> Iterator[tuple[str, T]]:
        return ((name, self._entries[name]) for name in self.names())

    def each(self, made: Callable[[str, T], R]) -> list[R]:
        """What `made` gives of every entry, by name; raises `InvalidInput` that names an entry that cannot be made."""
        found = []
        for name, value in self.items():
            try:
                found.append(made(name, value))
            except (TypeError, ValueError, AssertionError, DovetailError) as error:  # an argument that was forgotten
                raise InvalidInput(f"the {self.noun} {name!r} cannot be made: {error}") from error
        return found

    def withdraw(self, name: str) -> None:
        """Takes a plugin's entry out again, or what was registered on its behalf."""
        value = self._entries.pop(name)
        self._owners.pop(name, None)
        if self._dropped is not None:
            self._dropped(value)

    def _check_own(self, name: str, value: T, owner: Owner) -> None:
        """Raises where a plugin's entry cannot be taken: no name, one that is taken, or another kind of thing."""
        given: object = name  # whatever a file without types has there
        if not isinstance(given, str) or not given or given != given.strip() or not given.isprintable():
            raise InvalidInput(f"{_a(self.noun)} needs a name of letters, digits and hyphens; got {given!r:.80}")
        if name in self:
            holder = self.owner(name)
            whose = "this plugin" if holder == owner.path else f"the plugin {holder}" if holder else "a built-in"
            raise InvalidInput(f"the {self.noun} {name!r} is there already, from {whose}; choose another name")
        if self._check is not None:
            self._check(name, value)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        if self._filed_by:
            reader: Any = importlib.import_module(self._filed_by)
            for name, entry in reader.filed_entries(self.noun, package.__path__):
                self.register(name)(entry)


def _registering() -> Owner | None:
    """The plugin whose code registers; none where it is a module of ours, though a plugin may have imported it."""
    caller = str(sys._getframe(2).f_globals.get("__name__", ""))
    return None if caller.partition(".")[0] == __name__.partition(".")[0] else _owner.get()


@contextmanager
def registering(owner: Owner) -> Iterator[None]:
    """What is registered within is `owner`'s; where anything is raised, nothing of it stays."""
    token = _owner.set(owner)
    try:
        yield
    except BaseException:
        withdraw(owner)
        raise
    finally:
        _owner.reset(token)


def withdraw(owner: Owner) -> None:
    """Takes out all that `owner` registered, the last first, and has every cache forgotten that it may be in."""
    while owner.entries:
        registry, name = owner.entries.pop()
        registry.withdraw(name)
    for forget in _forgetters:
        forget()


def at_withdrawal(forget: Callable[[], None]) -> None:
    """Has `forget` called whenever entries are withdrawn: for caches by the names, or codes, of entries."""
    _forgetters.append(forget)


def made(noun: str, kind: type[Any], name: str, value: Any, *arguments: Any) -> Any:
    """What `value`, a function that a plugin registered, gives; raises where it is no function or gives no `kind`."""
    if not callable(value):
        raise InvalidInput(f"{_a(noun)} is registered as a function that gives it; {name!r} is {type(value).__name__}")
    found = value(*arguments)
    if not isinstance(found, kind):
        given = type(found).__name__
        raise InvalidInput(f"the function of the {noun} {name!r} must give {_a(kind.__name__)}; it gives {given}")
    return found


def holding(noun: str, kind: type[Any]) -> Callable[[str, Any], None]:
    """The check of a registry whose entries are values of one `kind`."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            message = f"{_a(noun)} is registered as {_a(kind.__name__)}"
            raise InvalidInput(f"{message}; {name!r} is {type(value).__name__}")

    return check


def functions(noun: str) -> Callable[[str, Any], None]:
    """The check of a registry whose entries are functions."""

    def check(name: str, value: Any) -> None:
        if not callable(value):
            raise InvalidInput(f"{_a(noun)} is registered as a function; {name!r} is {type(value).__name__}")

    return check


def named(noun: str, name: str, found: str) -> None:
    """Raises where an entry calls itself something else than it was registered as."""
    if found != name:
        raise InvalidInput(f"the {noun} registered as {name!r} is called {found!r}; one name for both")


def _a(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
