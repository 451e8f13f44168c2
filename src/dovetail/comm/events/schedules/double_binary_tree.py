"""Two binary trees, each with half of the payload, in which no rank is inner twice.

Source: Sanders, Speck & Traeff, Parallel Computing 2009; as in NCCL since 2.4.
"""

from __future__ import annotations

from dovetail.comm.events.schedules import (
    ROOTED,
    Ask,
    Lane,
    Level,
    Schedule,
    algorithms,
    listed,
    mirrored,
    not_modelled,
)


@algorithms.register("double-binary-tree")
def double_binary_tree(ask: Ask) -> Schedule:
    """Sums climb to the root of each tree and come down again: 2 log2(n) latencies."""
    if ask.collective not in (*ROOTED, "all-reduce"):
        raise not_modelled(ask, "double-binary-tree")
    trees = _trees(ask)
    ups = [mirrored(_down(ask, _by_height(tree)[::-1])) for tree in trees]
    downs = [_down(ask, _depths_of(tree)) for tree in trees]
    if ask.collective == "all-reduce":
        return tuple(up + down for up, down in zip(ups, downs, strict=True))
    return tuple(downs if ask.collective == "broadcast" else ups)


def _parents(first: int, last: int, parent: int, parents: dict[int, int]) -> None:
    """Ranks first..last as a balanced tree in order: every other rank is a leaf."""
    if first > last:
        return
    middle = first + (1 << ((last - first + 1).bit_length() - 1)) - 1
    middle = min(middle, last)
    parents[middle] = parent
    _parents(first, middle - 1, middle, parents)
    _parents(middle + 1, last, middle, parents)


def _trees(ask: Ask) -> list[dict[int, int]]:
    n = ask.num_ranks
    tree: dict[int, int] = {}
    _parents(0, n - 1, -1, tree)
    if ask.collective in ROOTED:
        top = next(rank for rank, parent in tree.items() if parent < 0)
        swap = {top: ask.root, ask.root: top}
        return [{swap.get(r, r): swap.get(p, p) for r, p in tree.items()}]
    other = {(r + 1) % n: (p + 1) % n if p >= 0 else -1 for r, p in tree.items()}
    return [tree, other]


def _depths_of(parents: dict[int, int]) -> list[list[tuple[int, int]]]:
    """(parent, child) pairs, level by level from the root."""
    children: dict[int, list[int]] = {}
    for child, parent in sorted(parents.items()):
        children.setdefault(parent, []).append(child)
    levels, here = [], children[-1]
    while below := [(parent, child) for parent in here for child in children.get(parent, [])]:
        levels.append(below)
        here = [child for _, child in below]
    return levels


def _by_height(parents: dict[int, int]) -> list[list[tuple[int, int]]]:
    """(parent, child) pairs, leaves first: a rank sends up as soon as all below it have."""
    height = dict.fromkeys(parents, 0)
    for pairs in reversed(_depths_of(parents)):
        for parent, child in pairs:
            height[parent] = max(height[parent], height[child] + 1)
    levels: list[list[tuple[int, int]]] = [[] for _ in range(max(height.values()))]
    for child, parent in sorted(parents.items()):
        if parent >= 0:
            levels[height[child]].append((parent, child))
    return levels


def _down(ask: Ask, levels: list[list[tuple[int, int]]]) -> Lane:
    payload_bytes = ask.payload_bytes if ask.collective in ROOTED else ask.payload_bytes / 2
    lane: list[Level] = []
    for pairs in levels:
        seen: set[int] = set()
        firsts = [pair for pair in pairs if pair[0] not in seen and not seen.add(pair[0])]  # type: ignore[func-returns-value]
        seconds = [pair for pair in pairs if pair not in firsts]
        rounds = [listed(ask.num_ranks, part, payload_bytes) for part in (firsts, seconds) if part]
        lane.append(Level(rounds=tuple(rounds)))
    return tuple(lane)
