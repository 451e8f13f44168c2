"""Names for things that live one to a file: saving the file is all it takes to be found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from dovetail.errors import InvalidInput, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to values registered by the modules of one package, imported on first look-up."""

    def __init__(self, noun: str, package: str) -> None:
        self.noun = noun
        self._package = package
        self._entries: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        def remember(value: T) -> T:
            assert name not in self._entries, f"two {self.noun}s are named {name!r}"
            self._entries[name] = value
            return value

        return remember

    def names(self) -> tuple[str, ...]:
        self._load()
        return tuple(sorted(self._entries))

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

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
