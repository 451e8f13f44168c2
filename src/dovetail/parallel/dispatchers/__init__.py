"""Token dispatchers: how rows travel to the devices of their experts, and back.

A dispatcher is a plan's choice. Saving a file here is all it takes to add one: times, bytes, launch texts and the
listing of methods read the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry, holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """One way for rows to travel.

    `copies`: a token goes once to each of its 'experts'; once to each 'place' that holds some of them, first among
    nodes and then among the devices of a node; or to 'all' devices of the group, whichever it chose.
    `launch`: what frameworks are told, by their names in `report.launchers`; one that is not there cannot be told.
    """

    name: str
    summary: str
    source: str
    copies: Literal["experts", "places", "all"]
    aliases: tuple[str, ...] = ()
    launch: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, hash=False)

    @property
    def is_deduplicated(self) -> bool:
        """Whether a row bound for several experts of one device or node crosses the network to it once."""
        return self.copies == "places"


ALL_TO_ALL, DEEPEP = "all-to-all", "deepep"  # what plans have by default; what 0.1 called sends_once
OLD_SWITCH: Mapping[object, str] = {True: DEEPEP, False: ALL_TO_ALL}  # as plans of 0.1 are kept

dispatchers: Registry[Dispatcher] = Registry("dispatcher", __name__, check=holding("dispatcher", Dispatcher))


def dispatcher_named(name: str) -> Dispatcher:
    """The dispatcher of this name or alias."""
    for _, each in dispatchers.items():
        if name == each.name or name in each.aliases:
            return each
    known = dispatchers.names()
    hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise InvalidInput(f"no dispatcher is named {name!r}{hint}", "dispatcher")
