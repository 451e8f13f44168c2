"""Calls on the host as a tree: who called whom, and to which operator of ours each belongs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.files.profiles.aten import COMPOSITES, is_known, row_of
from dovetail.files.profiles.aten_calls import NotOurs, Row, call_of
from dovetail.files.profiles.kineto import Events, HostCall
from dovetail.units import MICRO

NO_CALL = -1
NOT_MAPPED = "not mapped to an operator of ours"
_BACKWARD = "autograd::engine::evaluate_function"
_SLACK_S = 0.002 * MICRO  # times are written to a nanosecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a call on the host is: of an operator, the row or why it is none."""

    name: str
    row: Row | str
    is_operator: bool
    is_composite: bool
    is_known: bool


class CallTree:
    """Every call with the one around it, `parents`; `order` has these first."""

    def __init__(self, codes: Sequence[int], calls: Sequence[HostCall], parents: list[int], order: list[int]) -> None:
        self.parent, self.owner = parents, [NO_CALL] * len(parents)
        self._codes, self._calls = codes, calls
        self._meanings: dict[tuple[int, bool], Meaning] = {}
        self._is_back = [False] * len(parents)
        for index in order:
            call, around = calls[codes[index]], parents[index]
            is_back = around != NO_CALL and self._is_back[around] and not call.is_recorded
            self._is_back[index] = is_back or call.name.startswith(_BACKWARD)
        self._give(order)

    def of(self, index: int) -> Meaning:
        key = (self._codes[index], self._is_back[index])
        if key not in self._meanings:
            self._meanings[key] = _meaning(self._calls[key[0]], is_back=key[1])
        return self._meanings[key]

    def label(self, index: int) -> tuple[str, str]:
        """By what a call is left out, and why: the nearest around it that we know and have no row for, or itself."""
        here = index
        while here != NO_CALL:
            call = self.of(here)
            if call.is_known and isinstance(call.row, str):
                return call.name, call.row
            here = self.parent[here]
        return self.of(index).name, NOT_MAPPED

    def _give(self, order: list[int]) -> None:
        """Every call to the outermost of ours around it; composites only where nothing of ours is within them."""
        has_ours = [False] * len(order)
        for index in order:
            if isinstance(self.of(index).row, Row) and not self.of(index).is_composite:
                here = self.parent[index]
                while here != NO_CALL and not has_ours[here]:
                    has_ours[here] = True
                    here = self.parent[here]
        for index in order:
            around, call = self.parent[index], self.of(index)
            if around != NO_CALL and self.owner[around] != NO_CALL:
                self.owner[index] = self.owner[around]
            elif isinstance(call.row, Row) and not (call.is_composite and has_ours[index]):
                self.owner[index] = index


def nested_tree(events: Events) -> CallTree:
    """Calls nest by their times, each thread for itself."""
    begin_s, took_s = np.asarray(events.begin_s), np.asarray(events.took_s)
    order: list[int] = np.lexsort((-took_s, begin_s, np.asarray(events.thread))).tolist()
    begins_s, ends_s = begin_s.tolist(), (begin_s + took_s).tolist()
    parents = [NO_CALL] * len(order)
    stack: list[int] = []  # calls that are still open
    thread = NO_CALL
    for index in order:
        if events.thread[index] != thread:
            thread, stack = events.thread[index], []
        while stack and (ends_s[stack[-1]] < ends_s[index] - _SLACK_S or ends_s[stack[-1]] <= begins_s[index]):
            stack.pop()
        parents[index] = stack[-1] if stack else NO_CALL
        stack.append(index)
    return CallTree(events.call, list(events.calls), parents, order)


def _meaning(call: HostCall, *, is_back: bool) -> Meaning:
    is_ours = call.is_operator and is_known(call.name)
    row: Row | str = NOT_MAPPED
    if is_ours:
        dims, types, values = (ast.literal_eval(text) if text else [] for text in (call.dims, call.types, call.values))
        try:
            row = row_of(call_of(call.name, dims, types, values, is_backward=is_back))
        except NotOurs as why:
            row = str(why)
    is_composite = call.name in COMPOSITES
    return Meaning(
        name=call.name,
        row=row,
        is_operator=call.is_operator,
        is_composite=is_composite,
        is_known=is_ours and not is_composite,
    )
