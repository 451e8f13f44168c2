"""A layer of experts on a tape, written out as grouped kernels have it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.workload.recorded.sizes import Size
from tests.unit.workload.recorded.tapes import WIDTH, B, S, Tape

EXPERTS, CHOSEN, EXPERT_WIDTH = 8, 2, 48
ROWS = B * S
COPIES = ROWS * Size(CHOSEN)


@dataclass(frozen=True, slots=True)
class Mixture:
    """What comes out, and the last product of the experts before rows go back."""

    out: int
    down: int


def mixture(tape: Tape, x: int, *, where: str = "layers.0.moe", is_gated: bool = False) -> Mixture:
    """Softmax over a gate, the best few of it, rows sorted by expert, two products a group, and their weighted sum."""
    flat = tape.view(x, ROWS, WIDTH)
    chances = tape.add("softmax", tape.linear(flat, EXPERTS, where=f"{where}.gate"), dim=-1)
    chosen = tape.add("topk", chances, shape=(ROWS, CHOSEN))
    index = tape.add("sort", tape.data(COPIES, dtype="int"), dtype="int")
    rows = tape.add("gather", flat, index, shape=(COPIES, WIDTH), where=where)
    hidden = _grouped(tape, rows, EXPERT_WIDTH, index, f"{where}.up")
    active = tape.add("silu" if is_gated else "gelu", hidden)
    if is_gated:
        active = tape.add("mul", active, _grouped(tape, rows, EXPERT_WIDTH, index, f"{where}.gate_up"))
    down = _grouped(tape, active, WIDTH, index, f"{where}.down")
    back = tape.add("gather", tape.add("mul", down, tape.view(chosen, COPIES, 1)), index)
    out = tape.add("sum", tape.view(back, ROWS, CHOSEN, WIDTH), shape=(ROWS, WIDTH), dims=(1,))
    return Mixture(out=tape.view(out, B, S, WIDTH), down=down)


def _grouped(tape: Tape, rows: int, cols: int, index: int, where: str) -> int:
    inner = tape.shape(rows)[-1]
    weights = tape.weight(EXPERTS, inner, cols)
    return tape.add("grouped_linear", rows, weights, index, shape=(COPIES, cols), where=where)
