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


def mixture(
    tape: Tape, x: int, *, where: str = "layers.0.moe", is_gated: bool = False, is_blanked: bool = False
) -> Mixture:
    """Softmax over a gate, the best few of it, rows sorted by expert, two products a group, and their weighted sum.

    `is_blanked`: rows of experts that other devices hold are set to zero before and after each product.
    """
    flat = tape.view(x, ROWS, WIDTH)
    chances = tape.add("softmax", tape.linear(flat, EXPERTS, where=f"{where}.gate"), dim=-1)
    chosen = tape.add("topk", chances, shape=(ROWS, CHOSEN))
    index = tape.add("sort", tape.data(COPIES, dtype="int"), dtype="int")
    elsewhere = tape.view(tape.add("compare", index, dtype="bool", number=EXPERTS), COPIES, 1) if is_blanked else None
    rows = _blanked(tape, tape.add("gather", flat, index, shape=(COPIES, WIDTH), where=where), elsewhere)
    hidden = _blanked(tape, _grouped(tape, rows, EXPERT_WIDTH, index, f"{where}.up"), elsewhere)
    active = tape.add("silu" if is_gated else "gelu", hidden)
    if is_gated:
        active = tape.add("mul", active, _grouped(tape, rows, EXPERT_WIDTH, index, f"{where}.gate_up"))
    down = _grouped(tape, active, WIDTH, index, f"{where}.down")
    weighted = tape.add("mul", _blanked(tape, down, elsewhere), tape.view(chosen, COPIES, 1))
    back = tape.add("gather", weighted, index)
    out = tape.add("sum", tape.view(back, ROWS, CHOSEN, WIDTH), shape=(ROWS, WIDTH), dims=(1,))
    return Mixture(out=tape.view(out, B, S, WIDTH), down=down)


def _grouped(tape: Tape, rows: int, cols: int, index: int, where: str) -> int:
    inner = tape.shape(rows)[-1]
    weights = tape.weight(EXPERTS, inner, cols)
    return tape.add("grouped_linear", rows, weights, index, shape=(COPIES, cols), where=where)


def _blanked(tape: Tape, rows: int, elsewhere: int | None) -> int:
    return rows if elsewhere is None else tape.add("where", rows, elsewhere)
