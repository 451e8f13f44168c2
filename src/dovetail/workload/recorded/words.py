"""The neutral words of a recording, and what a reader may count on for each.

Front ends map to these; `recorded/` reads nothing else. Inputs stand in the order given here.

Free, the same memory seen another way:
    view            transpose, reshape, expand, slice, select, unsqueeze, detach; several outputs where it splits
Made of nothing:
    constant        arange, ones, full, empty, random numbers
Moves:
    copy            the same elements elsewhere (contiguous, clone); `write`: into the first input, of the second
    cast            the same elements in another dtype
    concat          several tensors side by side (`dim`)
    pad             with zeros or others
    gather          rows or elements of the first input by an index: index, index_select, take, roll, repeat, flip
    scatter         into the first input by an index: index_add, scatter, index_put
Element by element:
    add sub mul div one or two tensors (a plain number is no tensor); a power of two is `pow` with `exponent`
    pow             attribute `exponent`
    neg exp log sqrt rsqrt reciprocal abs cos sin erf tanh sigmoid relu gelu silu hardswish hardsigmoid
    unary           any other function of one tensor
    binary          any other function of two or more tensors (maximum, lerp, ...)
    compare         of tensors, to truth values: le, ge, eq, logical_and, isinf, ...; attribute `number` of the second
                    operand where that is a whole one, as it is of add, sub and binary
    triangle        tril, triu: the mask of causal attention is made with it
    where           choose by truth values: where, masked_fill
    dropout         one output of interest
Over several elements:
    sum mean        `dims` that are summed
    reduce          any other: amax, var, norm, prod, all
    softmax         `dim`
    log_softmax     `dim`
    topk sort cumsum
                    `topk`: values then indices; `sort` too; cumsum also for cumprod and histograms
    layernorm       inputs: x, then weight and bias where there are any
    rmsnorm         inputs: x, then weight
    batchnorm       inputs: x, then weight and bias where there are any (running statistics are left out)
    groupnorm       inputs: x, then weight and bias
    maxpool         attributes `window`, `stride` (of one side)
    avgpool         attributes `window`, `stride`; an adaptive one too, and an interpolation
Products:
    matmul          [..., m, k] by [..., k, n]; either may be a parameter; `triangular`: half of the first counts, as
                    where a system of equations is solved
    linear          [..., k] by a weight of [n, k] (attribute `turned`: True) or [k, n] (False); then a bias if any
    convolution     x [batch, channels, *sides], weight [out, in / groups, *window], bias if any;
                    attributes `stride`, `padding` (tuples), `groups`, `turned` (transposed)
    grouped_linear  rows sorted by expert [rows, k] by weights [experts, k, n]; the rest of its inputs say where
                    groups end
    attention       q [batch, heads, queries, width], k and v [batch, kv heads, keys, width], mask or bias if any;
                    attributes `is_causal`, `dropout` (a share)
    lstm            x [steps, batch, width] or [batch, steps, width] (`batch_first`), weights of each layer and
                    direction in order, then biases; attributes `hidden`, `layers`, `directions`
    embedding       table, indices
    embedding_bag   table, indices, and offsets where there are any; attribute `pool`: indices a row
Losses:
    nll             of log-probabilities, by class
    cross_entropy   of logits, by class
    binary_cross_entropy   of logits or probabilities
    mse             and any other mean of a function of differences
"""

from __future__ import annotations

MADE_OF_NOTHING = ("constant",)
FREE = ("view",)
MOVES = ("copy", "cast", "concat", "pad", "gather", "scatter")
UNARY = (
    "pow", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "cos", "sin", "erf", "tanh", "sigmoid", "relu",
    "gelu", "silu", "hardswish", "hardsigmoid", "unary",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "binary")
CHOOSING = ("compare", "triangle", "where")
REDUCING = ("sum", "mean", "reduce", "softmax", "log_softmax", "topk", "sort", "cumsum")
NORMS = ("layernorm", "rmsnorm", "batchnorm", "groupnorm")
POOLS = ("maxpool", "avgpool")
PRODUCTS = ("matmul", "linear", "convolution", "grouped_linear", "attention", "lstm")
TABLES = ("embedding", "embedding_bag")
LOSSES = ("nll", "cross_entropy", "binary_cross_entropy", "mse")
ELEMENT_WISE = frozenset((*UNARY, *BINARY, "where", "dropout", "cast"))
LABELS = frozenset(
    (
        *MADE_OF_NOTHING, *FREE, *MOVES, *UNARY, *BINARY, *CHOOSING, "dropout",
        *REDUCING, *NORMS, *POOLS, *PRODUCTS, *TABLES, *LOSSES,
    )
)  # fmt: skip

DTYPES = ("fp32", "bf16", "fp16", "fp8", "int", "bool")  # "int" of any width: indices and positions
FLOATS = ("fp32", "bf16", "fp16", "fp8")
