"""Operators that are simply one word of their tensors."""

from __future__ import annotations

from dovetail.importers.torch_operators import Call, Reading, as_numbered, as_word, torch_operators

PLAIN: dict[str, str] = {
    "view": """view _unsafe_view reshape _reshape_alias t transpose permute expand slice select unsqueeze squeeze detach
        alias split split_with_sizes chunk unbind narrow diagonal unfold as_strided lift lift_fresh unsafe_split
        unsafe_split_with_sizes unsafe_chunk view_as expand_as flatten unflatten swapaxes movedim mT numpy_T ravel
        squeeze_copy view_as_complex view_as_real real imag _conj conj resolve_conj""",
    "copy": """clone contiguous lift_fresh_copy pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle
        view_copy expand_copy permute_copy transpose_copy t_copy slice_copy select_copy unsqueeze_copy unbind_copy
        split_copy as_strided_copy unfold_copy diagonal_copy""",
    "pad": """constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
        replication_pad3d _pad_circular""",
    "gather": """index _unsafe_index index_select gather take take_along_dim roll repeat flip tile repeat_interleave
        rot90 im2col grid_sampler_2d grid_sampler_3d _unsafe_masked_index combinations""",
    "scatter": """index_put _index_put_impl _unsafe_index_put index_add index_copy index_fill index_reduce scatter
        scatter_add scatter_reduce masked_scatter put col2im""",
    "sub": "sub rsub subtract",
    "mul": "mul multiply",
    "div": "div divide true_divide",
    "neg": "neg negative",
    "exp": "exp exp2 expm1",
    "log": "log log2 log10 log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "abs": "abs absolute",
    "cos": "cos",
    "sin": "sin",
    "erf": "erf erfc erfinv",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "relu": "relu relu6",
    "gelu": "gelu",
    "silu": "silu",
    "hardswish": "hardswish",
    "hardsigmoid": "hardsigmoid",
    "unary": """sign sgn floor ceil round trunc frac tan asin acos atan sinh cosh asinh acosh atanh lgamma digamma
        polygamma clamp clamp_min clamp_max clip hardtanh leaky_relu elu selu celu softplus mish logit
        log_sigmoid_forward threshold hardshrink softshrink bitwise_not nan_to_num sinc i0 positive rrelu_with_noise
        glu deg2rad rad2deg special_i0e special_i1 special_i1e special_ndtri special_log_ndtr special_erfcx
        fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask""",
    "binary": """maximum minimum fmax fmin atan2 remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor
        bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ lerp addcmul addcdiv hypot
        copysign xlogy special_xlog1py logaddexp logaddexp2 ldexp gcd lcm nextafter heaviside _prelu_kernel prelu cross
        linalg_cross polar complex _weight_norm_interface _weight_norm""",
    "compare": """eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite isin signbit
        isposinf isneginf isclose""",
    "triangle": "tril triu",
    "where": "where masked_fill",
    "dropout": "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout",
    "reduce": """amax amin max min argmax argmin aminmax var var_mean std std_mean prod norm linalg_vector_norm all any
        logsumexp nansum count_nonzero dot vdot dist renorm _is_all_true _is_any_true""",
    "sort": "sort argsort kthvalue median nanmedian mode msort",
    "topk": "topk",
    "cumsum": "cumsum cumprod cummax cummin logcumsumexp histc bucketize searchsorted diff",
    "nll": "nll_loss_forward nll_loss2d_forward nll_loss nll_loss_nd nll_loss2d multi_margin_loss",
    "binary_cross_entropy": "binary_cross_entropy binary_cross_entropy_with_logits",
    "mse": """mse_loss smooth_l1_loss huber_loss l1_loss soft_margin_loss kl_div poisson_nll_loss
        multilabel_margin_loss_forward""",
}  # fmt: skip
MADE_OF_NOTHING = """arange ones zeros full empty empty_strided empty_permuted empty_like zeros_like ones_like full_like
    rand randn randint rand_like randn_like randint_like randperm scalar_tensor linspace logspace eye new_empty
    new_zeros new_ones new_full new_empty_strided bernoulli normal normal_functional uniform tril_indices triu_indices
    fill zero exponential random geometric log_normal cauchy hann_window hamming_window bartlett_window
    blackman_window"""

NUMBERED = ("sub", "subtract", "eq", "ne", "lt", "le", "gt", "ge", "floor_divide")  # masks compare positions by these

for _word, _names in PLAIN.items():
    for _name in _names.split():
        torch_operators.register(f"aten::{_name}")(as_numbered(_word) if _name in NUMBERED else as_word(_word))


def _constant(call: Call) -> Reading:
    del call  # `empty_like` has an operand, and reads nothing of it
    return Reading(word="constant", inputs=())


for _name in MADE_OF_NOTHING.split():
    torch_operators.register(f"aten::{_name}")(_constant)
