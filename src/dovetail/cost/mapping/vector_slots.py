"""What vector work takes of the lanes beside arrays: ALU operations per element, one table for all operators.

A slot is one ALU of one lane for one clock. Counts are of the instructions that XLA and Pallas emit for a TPU v4
(listings and cycle counts in ayaka14732/pallas-tpu-tutorial, sections on conversions and element-wise operations): no
multiply-add, so a multiply and an add are two; a special function (2^x, tanh, reciprocal) is issued in one slot and
computed by a unit of its own. Results of 16 bits are computed in fp32: every element is unpacked when it is read and
packed when it is written, a slot each.
"""

from __future__ import annotations

from dataclasses import dataclass

# The unit of special functions begins one in two clocks (measured on a TPU v4, same source), while two ALUs of a lane
# do four operations. It is taken to have grown with the ALUs: four from v5 on.
SPECIAL_SLOTS = 4.0
CONVERSION_SLOTS = 1.0  # to unpack or to pack one element of 16 bits or fewer; vunpackl/u and vpackc, same source
_RECIPROCAL = 14  # 1/y with its corrections, 15 instructions of which one fetches the result (same source)
_SIGMOID = 1 + 1 + 1 + _RECIPROCAL  # scale to base 2, 2^x, add 1, reciprocal
_ROOT = 12  # sqrt(y), 13 instructions of which one fetches the result (same source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Of one element of one direction of an operator, conversions apart.

    `needs_row`: the whole row is read before its first result is known, and so twice where it does not fit.
    """

    alu: float
    num_special: float = 0.0
    needs_row: bool = False

    @property
    def per_element(self) -> float:
        """Slots that pass: the ALUs' own, or those the unit of special functions takes."""
        return max(self.alu, SPECIAL_SLOTS * self.num_special)


FORWARD: dict[str, Slots] = {
    # x (0.5 + 0.5 tanh(x (a + b x^2))): five multiplies, two adds, tanh
    "gelu": Slots(alu=8, num_special=1),
    "gelu_mul": Slots(alu=9, num_special=1),
    "sigmoid": Slots(alu=_SIGMOID, num_special=2),
    "silu": Slots(alu=_SIGMOID + 1, num_special=2),
    "silu_mul": Slots(alu=_SIGMOID + 2, num_special=2),
    "tanh": Slots(alu=1, num_special=1),
    # sum, subtract, square, sum, times deviation, weight and bias
    "layernorm": Slots(alu=7, needs_row=True),
    "rmsnorm": Slots(alu=4, needs_row=True),  # square, sum, times deviation, weight
    # maximum, subtract, to base 2, 2^x, sum, times reciprocal
    "softmax": Slots(alu=6, num_special=1, needs_row=True),
    # as softmax but for the last; compare with the target, select, add
    "cross_entropy": Slots(alu=8, num_special=1),
    "fused_cross_entropy": Slots(alu=10, num_special=1, needs_row=True),  # and the gradient: subtract, scale
    "dropout": Slots(alu=5),  # random bits of the hardware generator, compare, select, scale, mask
    "bias_add": Slots(alu=1),
    "cast": Slots(alu=0),  # what is read and written is converted
    # averages of gradient and square 7, corrections 2, root and division, decay and step 4
    "adam": Slots(alu=13 + _ROOT + _RECIPROCAL + 1, num_special=2),
}
BACKWARD: dict[str, Slots] = {
    # tanh again (5), 0.5 (1 + t), 1 - t^2, derivative of its argument (2), the product of both and x (3), add, times dy
    "gelu": Slots(alu=16, num_special=1),
    "gelu_mul": Slots(alu=19, num_special=1),  # gelu of the gate again, and two products
    "sigmoid": Slots(alu=3),  # s (1 - s) dy
    "silu": Slots(alu=_SIGMOID + 5, num_special=2),  # s (1 + x (1 - s)) dy
    "silu_mul": Slots(alu=_SIGMOID + 8, num_special=2),
    "tanh": Slots(alu=3),
    # normalised input and weighted gradient (3), two sums of three, their corrections (4), deviation; sums of weight
    # and bias (3)
    "layernorm": Slots(alu=14, needs_row=True),
    "rmsnorm": Slots(alu=9, needs_row=True),
    "softmax": Slots(alu=4, needs_row=True),  # times y, sum, subtract, times y
    "cross_entropy": Slots(alu=7, num_special=1),  # subtract, to base 2, 2^x, compare, select, subtract, scale
    "dropout": Slots(alu=2),
}
# Of a score, its conversions included. Forward: scale or mask, maximum, subtract, 2^x, sum, pack. Backward: scale or
# mask, subtract the row's log-sum, 2^x, subtract delta, multiply, scale, and four conversions. An H200's 27 and 69 are
# its own.
ATTENTION_FORWARD = Slots(alu=6, num_special=1)
ATTENTION_BACKWARD = Slots(alu=10, num_special=1)

# Registers that a lane needs: an operation's result may be used two clocks after it began (fp32 multiply and add, same
# source), and a lane has two ALUs, so four independent elements are in work, each with its operands, its result and one
# value that it needs again later. A TPU v4 has twice that, 32 registers (same source).
WORD_BYTES = 4.0
NEEDED_REGISTER_BYTES = 2 * 2 * 4 * WORD_BYTES
SPILLED_BYTES = 3 * WORD_BYTES  # of an operation without registers: two operands loaded, a result stored


def operator_slots(name: str, *, is_backward: bool) -> Slots | None:
    """Of an operator that was counted; others take a slot for each FLOP of the operator table."""
    return (BACKWARD if is_backward else FORWARD).get(name)
