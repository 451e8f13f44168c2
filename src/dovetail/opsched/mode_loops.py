"""Modes of operators out of what every slice of every chip would take, as loops that Numba compiles."""

from __future__ import annotations

from dovetail.opsched.loops import fits
from dovetail.workload.graph import IntArray

NO_MODE = -1
SAVING_SHIFT = 8  # a mode that needs more than another must save 2^-8 of its time to be worth a decision


def is_useless(beats: IntArray, need: IntArray, here: int, there: int) -> bool:
    """Whether `there` does for less of something, and more of nothing, what `here` does, in about the time."""
    if not fits(need, here, need, there):
        return False
    if fits(need, there, need, here):  # the same needs: the shorter stays, the first of equals
        return bool(beats[there] < beats[here] or (beats[there] == beats[here] and there < here))
    return bool(beats[there] - beats[here] <= beats[here] >> SAVING_SHIFT)


def sorted_modes(beats: IntArray, need: IntArray, share_beats: IntArray, first: int, last: int) -> None:
    """Sorts modes in place by time, then area; they are few."""
    for end in range(first + 1, last):
        here = end
        while here > first and (
            beats[here - 1] > beats[here]
            or (beats[here - 1] == beats[here] and share_beats[here - 1] > share_beats[here])
        ):
            beats[here - 1], beats[here] = beats[here], beats[here - 1]
            share_beats[here - 1], share_beats[here] = share_beats[here], share_beats[here - 1]
            for what in range(need.shape[1]):
                need[here - 1, what], need[here, what] = need[here, what], need[here - 1, what]
            here -= 1


def most_held(beats: int, need: IntArray, stock: IntArray) -> int:
    """Beats times the largest share of anything, rounded up."""
    share_beats = 0
    for what in range(len(stock)):
        if need[what] > 0:
            share_beats = max(share_beats, -(-beats * need[what] // stock[what]))
    return share_beats


def packed_modes(
    slot_beats: IntArray,
    slot_need: IntArray,
    first_slot: IntArray,
    stock: IntArray,
    start: IntArray,
    beats: IntArray,
    need: IntArray,
    share_beats: IntArray,
) -> int:
    """Into the last four: modes of each chip's operators that no other makes useless; how many there are.

    Slots are slices, those of chip c at `first_slot[c]:first_slot[c+1]`; `slot_beats` is operators by slots, NO_MODE
    where an operator cannot run.
    """
    num = 0
    for chip in range(len(first_slot) - 1):
        low, high = first_slot[chip], first_slot[chip + 1]
        for i in range(len(slot_beats)):
            start[chip, i] = num
            own_beats, own_need = slot_beats[i, low:high], slot_need[i, low:high]
            for here in range(high - low):
                if own_beats[here] == NO_MODE or is_beaten(own_beats, own_need, here):
                    continue
                beats[num] = own_beats[here]
                share_beats[num] = most_held(own_beats[here], own_need[here], stock[chip])
                need[num] = own_need[here]
                num += 1
            sorted_modes(beats, need, share_beats, start[chip, i], num)
        start[chip, len(slot_beats)] = num
    return num


def is_beaten(beats: IntArray, need: IntArray, here: int) -> bool:
    for there in range(len(beats)):
        if there != here and beats[there] != NO_MODE and is_useless(beats, need, here, there):
            return True
    return False
