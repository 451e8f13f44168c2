"""PyTorch's operators as ours: by name, how the row of a graph that each is follows from the shapes it was given.

One line of `OPERATORS` a name. What is not in it, or was given shapes we have no row for, is reported and counted.
"""

from __future__ import annotations

from dovetail.files.profiles.aten_calls import Call, NotOurs, Row
from dovetail.files.profiles.aten_rows import (
    Maker,
    attention,
    binary,
    channels,
    convolution,
    copy,
    embedding,
    embedding_backward,
    linear,
    product,
    rows,
    unrecorded,
)
from dovetail.hardware.measured import BACKWARD

# What holds products and other operators, and is one itself only where none of them is seen beneath it.
COMPOSITES = ("aten::linear", "aten::matmul")
OPERATORS: dict[str, Maker] = {
    "aten::mm": product(0),
    "aten::addmm": product(1),
    "aten::_scaled_mm": product(0),
    "aten::_int_mm": product(0),
    "aten::bmm": product(0),
    "aten::baddbmm": product(1),
    "aten::linear": linear,
    "aten::matmul": product(0),
    "aten::convolution": convolution(0, 3),
    "aten::convolution_backward": convolution(1, 4, BACKWARD),
    "aten::native_layer_norm": rows("layernorm"),
    "aten::native_layer_norm_backward": rows("layernorm", BACKWARD, 1),
    "aten::_fused_rms_norm": rows("rmsnorm"),
    "aten::_fused_rms_norm_backward": rows("rmsnorm", BACKWARD, 1),
    "aten::cudnn_batch_norm": channels("batchnorm"),
    "aten::cudnn_batch_norm_backward": channels("batchnorm", BACKWARD),
    "aten::native_batch_norm": channels("batchnorm"),
    "aten::native_batch_norm_backward": channels("batchnorm", BACKWARD, 1),
    "aten::_softmax": rows("softmax"),
    "aten::_softmax_backward_data": rows("softmax", BACKWARD),
    "aten::_log_softmax": rows("cross_entropy"),
    "aten::_log_softmax_backward_data": rows("cross_entropy", BACKWARD),
    # of each: where the queries are, and where it says that it is causal
    "aten::_scaled_dot_product_flash_attention": attention(0, 4),
    "aten::_scaled_dot_product_flash_attention_backward": attention(1, 11, BACKWARD),
    "aten::_scaled_dot_product_efficient_attention": attention(0, 6),
    "aten::_scaled_dot_product_efficient_attention_backward": attention(1, 11, BACKWARD),
    "aten::_scaled_dot_product_cudnn_attention": attention(0, 6),
    "aten::_scaled_dot_product_cudnn_attention_backward": attention(1, 14, BACKWARD),
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention(0, 4),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": attention(1, 7, BACKWARD),
    "flash_attn::_flash_attn_forward": attention(0, 5, heads_first=False),
    "flash_attn::_flash_attn_backward": attention(1, 11, BACKWARD, heads_first=False),
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::add": binary("add"),
    "aten::add_": binary("add"),
    "aten::mul": binary("mul"),
    "aten::mul_": binary("mul"),
    "aten::gelu": rows("gelu"),
    "aten::gelu_backward": rows("gelu", BACKWARD),
    "aten::silu": rows("silu"),
    "aten::silu_backward": rows("silu", BACKWARD),
    "aten::relu": rows("relu"),
    "aten::threshold_backward": rows("relu", BACKWARD),
    "aten::tanh": rows("tanh"),
    "aten::tanh_backward": rows("tanh", BACKWARD),
    "aten::sigmoid": rows("sigmoid"),
    "aten::sigmoid_backward": rows("sigmoid", BACKWARD),
    "aten::hardswish": rows("hardswish"),
    "aten::hardswish_backward": rows("hardswish", BACKWARD),
    "aten::native_dropout": rows("dropout"),
    "aten::native_dropout_backward": rows("dropout", BACKWARD),
    "aten::copy_": copy,
    "aten::_fused_adam_": unrecorded,
    "aten::_fused_adamw_": unrecorded,
    "aten::_fused_sgd_": unrecorded,
}


def is_known(name: str) -> bool:
    return name in OPERATORS


def row_of(call: Call) -> Row:
    """The row that `call` is; raises `NotOurs` where it is none."""
    if call.name not in OPERATORS:
        raise NotOurs("not mapped to an operator of ours")
    return OPERATORS[call.name](call)
