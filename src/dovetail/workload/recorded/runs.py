"""Equal pieces that follow each other: which of them repeat, and what makes one block."""

from __future__ import annotations

from dovetail.workload.recorded.cuts import DraftSpan, signature

Run = tuple[int, int, int]  # first piece, pieces of one repeat, repeats
PRODUCTS = ("linear", "convolution", "attention", "expert_linear", "recurrent_linear", "matmul")
_MAX_PERIOD = 64  # cuts in one repeat at the most
_NUM_LAYER_PRODUCTS = 3  # with so many a stretch before the repeats is a layer unlike them, not a stem
_MOST_FRAC = 0.8  # of all parameters: where repeats hold so many, what stands before and after them is no layer


def runs_of(pieces: list[DraftSpan]) -> list[Run]:
    """Runs of which each is a block, in order."""
    return _joined(_first_runs([signature(piece) for piece in pieces]), pieces)


def _first_runs(marks: list[tuple[object, ...]]) -> list[Run]:
    """(first, period, repeats) one after another: at each place what covers the most of what follows."""
    codes = {mark: code for code, mark in enumerate(dict.fromkeys(marks))}
    line = [codes[mark] for mark in marks]
    weight = [len(mark) for mark in marks]
    found = []
    at = 0
    while at < len(line):
        best = (at, 1, 1)
        most = 0
        for period in range(1, min(_MAX_PERIOD, (len(line) - at) // 2) + 1):
            pattern = line[at : at + period]
            repeat = 1
            while line[at + repeat * period : at + (repeat + 1) * period] == pattern:
                repeat += 1
            covered = sum(weight[at : at + repeat * period])
            if repeat > 1 and covered > most:
                best, most = (at, period, repeat), covered
        found.append(best)
        at += best[1] * best[2]
    return found


def _joined(runs: list[Run], pieces: list[DraftSpan]) -> list[Run]:
    """Runs of which each is a block.

    Where repeats hold most parameters, all before them is one block and all behind them another. Elsewhere a stretch
    without a product, a norm or an activation, belongs to the one before it, or to the next at the beginning.
    """
    weights = [repeat * _num_weights(pieces[first : first + period]) for first, period, repeat in runs]
    repeats = [index for index, (_, _, repeat) in enumerate(runs) if repeat > 1 and weights[index]]
    if repeats and sum(weights[index] for index in repeats) > _MOST_FRAC * sum(weights):
        first, last = repeats[0], repeats[-1]
        begins = next((i for i in range(first) if _num_products(pieces, runs[i]) >= _NUM_LAYER_PRODUCTS), first)
        leading = [*_as_one(runs[:begins]), *_as_one(runs[begins:first])]
        return [*leading, *runs[first : last + 1], *_as_one(runs[last + 1 :])]
    found: list[Run] = []
    for run in runs:
        before = found[-1] if found else (0, 0, 0)
        is_bare = not has_product(pieces, run) or (run[2] == 1 and not has_product(pieces, before))
        if before[2] == 1 and is_bare:
            found[-1] = (before[0], before[1] + run[1] * run[2], 1)
        else:
            found.append(run)
    return found


def _num_weights(pieces: list[DraftSpan]) -> int:
    """Parameters of products, but for that of logits."""
    return sum(d.weight for piece in pieces for d in piece.drafts if d.kind in PRODUCTS and d.name != "lm_head")


def _as_one(runs: list[Run]) -> list[Run]:
    return [(runs[0][0], sum(period * repeat for _, period, repeat in runs), 1)] if runs else []


def _num_products(pieces: list[DraftSpan], run: Run) -> int:
    return sum(d.kind in PRODUCTS for piece in pieces[run[0] : run[0] + run[1]] for d in piece.drafts)


def has_product(pieces: list[DraftSpan], run: Run) -> bool:
    inside = pieces[run[0] : run[0] + run[1]]
    return any(draft.kind in PRODUCTS for piece in inside for draft in piece.drafts)
