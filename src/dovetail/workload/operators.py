"""Every operator Dovetail knows: what unit runs it and what one pass of it moves and computes.

A graph refers to operators by their index here (`code`). An operator that is not in this table cannot be put
into a graph, so nothing is ever free because it was forgotten. Vector operators are described per element of
their output: tensors read and written (in elements of the operator's dtype), further bytes, and FLOP. A plugin adds
its own vector operators through the registry `operators`, behind these.
"""

from __future__ import annotations

import numpy as np

from dovetail.errors import NotModelled, did_you_mean
from dovetail.workload.operator_tables import (
    FLOP_PER_ELEMENT,
    KEEPS_INPUT,
    KEEPS_OUTPUT,
    NUM_READS,
    NUM_WRITES,
    OPERATORS,
    SIDE_BYTES_PER_ELEMENT,
    UNIT,
    Operator,
    Pass,
    Unit,
    code_of,
    operators,
)
from dovetail.workload.optimizers import add_update_operators, optimizers, update_operators

__all__ = [
    "ATTENTIONS",
    "ATTENTION_CODES",
    "DTYPES",
    "DTYPE_BYTES",
    "FLOP_PER_ELEMENT",
    "KEEPS_INPUT",
    "KEEPS_OUTPUT",
    "NUM_READS",
    "NUM_WRITES",
    "OPERATORS",
    "RECOMPUTED_FROM_INPUT",
    "SIDE_BYTES_PER_ELEMENT",
    "UNIT",
    "Operator",
    "Pass",
    "Unit",
    "code_of",
    "dtype_bytes",
    "dtype_code",
    "operators",
]


def _vector(name: str, forward: Pass, backward: Pass, **keeps: bool | float) -> Operator:
    return Operator(name=name, unit=Unit.VECTOR, forward=forward, backward=backward, **keeps)  # type: ignore[arg-type]


def _unary(name: str, num_flop: float, **keeps: bool | float) -> Operator:
    """One input, one output; its backward reads the gradient and one kept tensor."""
    return _vector(
        name,
        Pass(flop_per_element=num_flop),
        Pass(num_reads=2, flop_per_element=1.5 * num_flop),
        **keeps,
    )


def _network(name: str, conjugate: str) -> Operator:
    return Operator(name=name, unit=Unit.NETWORK, conjugate=conjugate)


# FLOP per element count each add, multiply, divide, exp, tanh or erf as one; they matter only where lanes, not
# memory, are the limit.
_TABLE = (
    Operator(name="input", unit=Unit.NONE),
    Operator(name="linear", unit=Unit.TENSOR, keeps_input=True),
    Operator(name="expert_linear", unit=Unit.TENSOR, keeps_input=True),
    Operator(name="matmul", unit=Unit.TENSOR, keeps_input=True),
    Operator(name="convolution", unit=Unit.TENSOR, keeps_input=True),
    Operator(name="attention", unit=Unit.TENSOR, keeps_input=True, keeps_output=True),
    # norms: forward reads once (a row fits on chip), backward reads input and gradient
    _unary("layernorm", 8, keeps_input=True),
    _unary("rmsnorm", 4, keeps_input=True),
    # batch statistics need a second sweep, forward and backward
    _vector(
        "batchnorm", Pass(num_reads=2, flop_per_element=6), Pass(num_reads=4, flop_per_element=10), keeps_input=True
    ),
    _unary("gelu", 10, keeps_input=True),
    _unary("silu", 5, keeps_input=True),
    _unary("hardswish", 4, keeps_input=True),
    _unary("hardsigmoid", 3, keeps_input=True),
    _unary("tanh", 4, keeps_output=True),
    _unary("sigmoid", 4, keeps_output=True),
    _unary("relu", 1, keeps_output=True),
    _unary("softmax", 6, keeps_output=True),
    # two inputs, one output: gate and up projections of a gated feed-forward layer
    _vector(
        "silu_mul",
        Pass(num_reads=2, flop_per_element=6),
        Pass(num_reads=3, num_writes=2, flop_per_element=10),
        keeps_input=True,
    ),
    _vector(
        "gelu_mul",
        Pass(num_reads=2, flop_per_element=11),
        Pass(num_reads=3, num_writes=2, flop_per_element=18),
        keeps_input=True,
    ),
    _vector("mul", Pass(num_reads=2), Pass(num_reads=3, num_writes=2, flop_per_element=2), keeps_input=True),
    # an add passes its gradient on; what its backward costs is the sum at the fork
    _vector("add", Pass(num_reads=2), Pass(num_reads=2)),
    _vector("bias_add", Pass(), Pass(num_writes=0)),
    _vector("concat", Pass(flop_per_element=0), Pass(flop_per_element=0)),
    _vector("scale", Pass(), Pass()),
    _vector("rope", Pass(flop_per_element=6), Pass(flop_per_element=6)),
    _vector(
        "dropout",
        Pass(flop_per_element=3, side_bytes_per_element=1),
        Pass(flop_per_element=1, side_bytes_per_element=1),
        kept_bytes_per_element=1.0,
    ),
    _vector(
        "maxpool",
        Pass(flop_per_element=9, side_bytes_per_element=8),
        Pass(side_bytes_per_element=8),
        kept_bytes_per_element=8.0,
    ),
    _vector("avgpool", Pass(), Pass()),
    # logits in, log-probabilities out, of which the ones kept may be wider; their gradient fills a tensor from both
    _vector(
        "cross_entropy",
        Pass(flop_per_element=6),
        Pass(num_reads=2, flop_per_element=2),
        kept_bytes_per_element=4.0,
    ),
    # the same, with the gradient taken in place of the probabilities (Megatron-LM's vocabulary-parallel loss): to fp32,
    # maximum, less it, exp, sum, over it; then times the gradient, and cast
    _vector(
        "inplace_cross_entropy",
        Pass(num_writes=0, flop_per_element=6, side_bytes_per_element=36),
        Pass(num_reads=0, flop_per_element=2, side_bytes_per_element=12),
        kept_bytes_per_element=4.0,
    ),
    # one kernel that leaves the gradient where the logits were
    _vector(
        "fused_cross_entropy",
        Pass(num_writes=1, flop_per_element=8),
        Pass(num_reads=0, num_writes=0, flop_per_element=0),
        keeps_input=True,
    ),
    _vector("binary_cross_entropy", Pass(flop_per_element=8), Pass(num_reads=2, flop_per_element=4), keeps_input=True),
    # gather rows of a table; backward adds rows into the table's gradient
    _vector("embedding", Pass(flop_per_element=0), Pass(num_reads=2, flop_per_element=1)),
    _vector("embedding_bag", Pass(flop_per_element=1), Pass(num_reads=2, flop_per_element=1)),
    # gates to cell and hidden state: four gate inputs, the cell state in and out
    _vector(
        "lstm_cell",
        Pass(num_reads=5, num_writes=2, flop_per_element=30),
        Pass(num_reads=8, num_writes=5, flop_per_element=50),
        keeps_input=True,
        keeps_output=True,
    ),
    # mixture of experts: choose, then move rows to their expert's batch and back
    _unary("router", 8, keeps_output=True),
    _vector("permute", Pass(flop_per_element=0), Pass(flop_per_element=0)),
    _vector(
        "unpermute", Pass(num_reads=2, flop_per_element=2), Pass(num_reads=2, flop_per_element=2), keeps_input=True
    ),
    # gradient of a bias: sum the output gradient over rows
    _vector("bias_grad", Pass(num_writes=0), Pass(num_writes=0)),
    # the element-wise part of an optimizer's step, per parameter; the others of `workload.optimizers` stand at the end
    *update_operators(optimizers["adam"]),
    *update_operators(optimizers["sgd"]),
    # tensor axis. `gather`: rows held in parts become whole (nothing to do unless rows are split by sequence
    # parallelism); `reduce`: partial sums become sums, in parts again under sequence parallelism
    _network("gather", "reduce"),
    _network("reduce", "gather"),
    # expert axis: rows to the device of their expert, and back
    _network("dispatch", "combine"),
    _network("combine", "dispatch"),
    # expert-tensor axis: as gather and reduce, of rows already at their expert
    _network("expert_gather", "expert_reduce"),
    _network("expert_reduce", "expert_gather"),
    # context axis: keys and values of the whole sequence, and the sum of their gradients
    _network("context_gather", "context_reduce"),
    _network("context_reduce", "context_gather"),
    # tensor axis: maximum, sum and target of split logits
    _network("vocab_reduce", ""),
    # a product of a recurrent layer: b steps one after another, each of m rows by n columns over k with the same
    # weight, whose distinct_frac is 1/b: a step reads it again unless it stays on chip. Only the forward and the
    # input gradient are sequential; the weight gradient waits for all steps and is one product over b * m rows.
    # The hidden states it contracts over are kept as the output of the lstm_cell behind it.
    Operator(name="recurrent_linear", unit=Unit.TENSOR),
    # stride 2: four inputs for each output, whose gradient is written to all four
    _vector(
        "strided_maxpool",
        Pass(num_reads=4, flop_per_element=9, side_bytes_per_element=8),
        Pass(num_writes=4, side_bytes_per_element=8),
        kept_bytes_per_element=8.0,
    ),
    # many inputs for each output: described per element of its input, beside which its output is small
    _vector("strided_avgpool", Pass(num_writes=0), Pass(num_reads=0)),
    # each channel of an image times one gate
    _vector("channel_scale", Pass(), Pass(num_reads=2, flop_per_element=3), keeps_input=True),
    # every pair of rows of two tensors, summed: both are small beside the output, and kept so that it need not be
    _vector(
        "pairwise_add",
        Pass(num_reads=0, flop_per_element=2),
        Pass(num_writes=0, flop_per_element=2),
        keeps_input=True,
    ),
    # to another dtype: what is written is 4 bytes an element, fp32; the way back is as long
    _vector("cast", Pass(num_writes=0, side_bytes_per_element=4), Pass(num_reads=0, side_bytes_per_element=4)),
    # rows become columns in memory
    _vector("transpose", Pass(flop_per_element=0), Pass(flop_per_element=0)),
    _vector("copy", Pass(flop_per_element=0), Pass(flop_per_element=0)),
    # a gated activation with clamps and an offset, each step a kernel of its own: split, two clamps, scale, sigmoid,
    # two products, offset, and the routing weight (GPT-OSS)
    _vector(
        "clamped_silu_mul",
        Pass(num_reads=13, num_writes=10, flop_per_element=12),
        Pass(num_reads=22, num_writes=14, flop_per_element=20),
        keeps_input=True,
        keeps_output=True,
    ),
    # to fewer bits, for one product and, turned, for another: both are written, in bytes that a row says
    _vector("quantize", Pass(num_writes=0), Pass(num_writes=0)),
    # the largest of all elements
    _vector("amax", Pass(num_writes=0), Pass(num_writes=0)),
    # fused attention by the first two generations of flash kernels; "attention" is the best the chip has
    Operator(name="attention_1", unit=Unit.TENSOR, keeps_input=True, keeps_output=True),
    Operator(name="attention_2", unit=Unit.TENSOR, keeps_input=True, keeps_output=True),
    # attention over one part of the keys added to that over others: its output is scaled and added to a sum in fp32;
    # on the way back gradients of queries, and of keys and values that pass, are added to what is there
    _vector(
        "merge",
        Pass(num_writes=0, flop_per_element=4, side_bytes_per_element=8),
        Pass(num_reads=2, flop_per_element=1),
    ),
    # element-wise steps of one tensor that no other operator here stands for, as one kernel; its input is kept
    _unary("elementwise", 4, keeps_input=True),
    # one of two by a mask of truth values
    _vector("where", Pass(side_bytes_per_element=1), Pass(side_bytes_per_element=1), kept_bytes_per_element=1.0),
    # many elements to few, described per element of its input, which its gradient needs: maxima, norms, variances
    _vector("reduction", Pass(num_writes=0), Pass(), keeps_input=True),
    # written without a gradient: masks, positions, indices of 8 bytes, data made ready
    _vector(
        "constant",
        Pass(num_reads=0, num_writes=0, side_bytes_per_element=8),
        Pass(num_reads=0, num_writes=0, flop_per_element=0),
    ),
    # the bias of each expert times the weight of each of its rows, added to what the expert gives, and all experts'
    # rows joined again; products and sums in fp32
    _vector(
        "expert_bias",
        Pass(flop_per_element=2, side_bytes_per_element=24),
        Pass(num_reads=2, num_writes=2, flop_per_element=4, side_bytes_per_element=32),
    ),
)

for _each in _TABLE:
    operators.register(_each.name)(_each)
for _, _optimizer in optimizers.items():
    add_update_operators(_optimizer)

ATTENTIONS = ("attention", "attention_1", "attention_2")
ATTENTION_CODES = tuple(code_of(name) for name in ATTENTIONS)

# Vector operators whose output can be formed again from an input that is kept anyway: what the recompute policy
# norm-activation drops.
RECOMPUTED_FROM_INPUT = tuple(
    code_of(name)
    for name in (
        "layernorm",
        "rmsnorm",
        "gelu",
        "silu",
        "silu_mul",
        "gelu_mul",
        "clamped_silu_mul",
        "mul",
        "hardswish",
    )
)

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
DTYPE_BYTES = np.array([4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.5625])  # fp4 with a byte of scale for 16 (NVFP4)


def dtype_code(name: str) -> int:
    """The index of a dtype by name."""
    if name not in DTYPES:
        raise NotModelled(f"dtype {name!r} is not modelled{did_you_mean(name, DTYPES)}")
    return DTYPES.index(name)


def dtype_bytes(name: str) -> float:
    return float(DTYPE_BYTES[dtype_code(name)])
