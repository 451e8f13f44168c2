"""Surviving mutants that no test can kill, each with the reason: what they change cannot be seen from outside.

They are named in the list of survivors and count as survivors all the same.
"""

from __future__ import annotations

ALIKE = {  # by the mutant's key: file, scope, operator, what it was, what it became, and which of equal ones
    "cost/node.py|node|arithmetic|energy / _REFERENCE[2]|energy * _REFERENCE[2]|0": (
        "the reference node's own ratio is 1"
    ),
    "network/events/all_ranks.py||constant|21|22|0": ("how much a cache keeps changes no time"),
    "network/events/ranks.py|lane_order|constant|16|17|0": (
        "any shift that keeps phase and lane below the chunk gives one order"
    ),
    "network/events/limits.py|_check|constant|0|1|0": ("no limit is below one, so one passes as none does"),
    "network/astra/ranks.py|AstraRanks._join|constant|0|1|0": (
        "all ranks of a group count their turns from one number, whichever it is"
    ),
    "schedule/cores/mode_loops.py|sorted_modes|arithmetic|first + 1|first - 1|0": (
        "the turns that it adds have nothing before them to sort"
    ),
    "schedule/cores/mode_loops.py|is_useless|boundary|there < here|there <= here|0": (
        "a mode is never compared with itself"
    ),
    "plan/memory.py|largest_of|constant|1|0|0": ("the larger of a number and itself is that number"),
}
