"""Above autograd: what PyTorch would do on a CUDA device with functions that it takes apart on meta tensors.

Attention goes to the backend that PyTorch's rules choose, dropout is fused, autocast casts operands by PyTorch's lists
and keeps the casts of weights until it ends.
"""

from __future__ import annotations

import math
import types as python_types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812  the name everyone gives it
from torch.overrides import TorchFunctionMode

from dovetail.errors import NotModelled
from dovetail.importers.torch_failures import user_line

aten = torch.ops.aten
AWAY = ("cuda", "xpu", "mps", "hpu", "npu")
# ATen/autocast_mode.h, torch 2.11: functions that run in the lower precision, in fp32, with an output in fp32, and in
# the widest dtype of their operands.
_LOWER = """conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution prelu addmm
    addmv addr matmul __matmul__ __rmatmul__ einsum mm mv vecdot linalg_vecdot linear addbmm baddbmm bmm chain_matmul
    multi_dot linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"""
_FP32 = """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow __pow__ __rpow__ softplus
    layer_norm native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss_nd cross_entropy_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
    smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
    multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d
    upsample_bicubic2d"""
_FP32_OUT = "prod softmax log_softmax cumprod cumsum sum linalg_vector_norm vector_norm norm"
_WIDEST = """addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add cat
    stack"""
LOWER, FP32, FP32_OUT, WIDEST = (frozenset(names.split()) for names in (_LOWER, _FP32, _FP32_OUT, _WIDEST))
IN_PYTHON = (F.__name__, torch.functional.__name__, torch.autograd.__name__)
_REDUCTIONS = ("none", "mean", "sum")  # by PyTorch's number
FLASH_WIDTH = 256  # most columns of a head that PyTorch's flash attention takes
CUDNN_WIDTH = 256  # and cuDNN's on Hopper
ALIGNED = 8  # columns that flash attention pads heads to, and that the others need for 16-bit numbers
BIAS_ALIGNED = 16  # columns that efficient attention pads masks to


class Autocast:
    """What autocast is set to while a step runs, and the casts of weights that it keeps."""

    def __init__(self) -> None:
        self.dtype: torch.dtype | None = None  # of products; none where autocast is off
        self.default = torch.bfloat16
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._depth = 0

    def enter(self, dtype: torch.dtype | None) -> torch.dtype | None:
        before, self.dtype = self.dtype, dtype
        self._depth += 1
        return before

    def leave(self, before: torch.dtype | None) -> None:
        self.dtype = before
        self._depth -= 1
        if not self._depth:
            self._kept.clear()

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([self.cast(one, dtype) for one in value])
        if not isinstance(value, torch.Tensor) or not _is_eligible(value) or value.dtype == dtype:
            return value
        is_kept = (
            dtype == self.dtype
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
        )
        if not is_kept:
            return value.to(dtype)
        if id(value) not in self._kept:
            self._kept[id(value)] = value, value.to(dtype)
        return self._kept[id(value)][1]


def _is_eligible(value: torch.Tensor) -> bool:
    return bool(value.is_meta and value.is_floating_point() and value.dtype != torch.float64)


class CudaFunctions(TorchFunctionMode):
    """Takes functions as PyTorch would on CUDA, and leaves everything on meta."""

    def __init__(self, autocast: Autocast) -> None:
        super().__init__()
        self.autocast = autocast
        self._opened: dict[Any, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in MOVES or "device" in kwargs:
            args, kwargs = at_home(name, args, kwargs)
            if name in AWAY:
                return args[0]
        whole = WHOLE.get(func)
        if whole is not None:
            if self.autocast.dtype is not None and whole is _attention:
                args, kwargs = self._cast(args, kwargs, self.autocast.dtype)
            elif self.autocast.dtype is not None and whole is not _dropout:
                args, kwargs = self._under_autocast(name, args, kwargs)
            made = whole(*args, **kwargs)
            if made is not NotImplemented:
                return made
        opened = self._open(func)
        if opened is not None:
            with self:
                return opened(*args, **kwargs)
        if self.autocast.dtype is not None:
            if name == "cross_entropy_loss":
                return self._cross_entropy(*args, **kwargs)
            args, kwargs = self._under_autocast(name, args, kwargs)
        return func(*args, **kwargs)

    def _cross_entropy(
        self,
        input: Any,
        target: Any,
        weight: Any = None,
        reduction: Any = 1,
        ignored: int = -100,
        smoothing: float = 0.0,
    ) -> Any:
        """In two parts: the logarithm in the dtype of what it gets, which it names itself, and the rest in fp32.

        Seen in profiles of BERT under autocast (torch 2.11): `_log_softmax` and its gradient are in bf16.
        """
        if smoothing or target.is_floating_point():
            return F.cross_entropy(
                input.float(), target, weight, None, ignored, None, _REDUCTIONS[reduction], smoothing
            )
        dim = 0 if input.dim() == 1 else 1
        logs = torch.log_softmax(input, dim)
        return torch._C._nn.nll_loss_nd(logs.float(), target, weight, reduction, ignored)

    def _under_autocast(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        assert self.autocast.dtype is not None
        if name in LOWER:
            return self._cast(args, kwargs, self.autocast.dtype)
        if name in FP32:
            return self._cast(args, kwargs, torch.float32)
        if name in FP32_OUT:
            has_dtype = kwargs.get("dtype") is not None or any(isinstance(one, torch.dtype) for one in args)
            if args and isinstance(args[0], torch.Tensor) and _is_eligible(args[0]) and not has_dtype:
                return args, kwargs | {"dtype": torch.float32}
        if name in WIDEST:
            dtypes = {one.dtype for one in _floats((args, kwargs))}
            if len(dtypes) > 1:
                return self._cast(args, kwargs, torch.float32 if torch.float32 in dtypes else max(dtypes, key=str))
        return args, kwargs

    def _cast(self, args: Any, kwargs: Any, dtype: torch.dtype) -> tuple[Any, Any]:
        return self.autocast.cast(tuple(args), dtype), {
            key: self.autocast.cast(value, dtype) for key, value in kwargs.items()
        }

    def _open(self, func: Any) -> Any:
        """A function that is written in Python, so that those within it are seen too: of a backward pass recompute."""
        if func not in self._opened:
            self._opened[func] = _opened(func)
        return self._opened[func]


def _opened(func: Any) -> Any:
    if not isinstance(func, python_types.FunctionType):
        return None
    if func.__module__ not in IN_PYTHON and func is not torch.Tensor.backward:
        return None
    asks = [name for name in func.__code__.co_names if name.startswith("has_torch_function")]
    if not asks:
        return None
    names = func.__globals__ | dict.fromkeys(asks, lambda *_tensors: False)
    opened = python_types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    opened.__kwdefaults__ = func.__kwdefaults__
    return opened


def _floats(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values] if _is_eligible(values) else []
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, list | tuple):
        return []
    return [tensor for value in values for tensor in _floats(value)]


MOVES = ("to", *AWAY)


def at_home(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The call with every accelerator named in it replaced by meta."""
    if name == "to":
        args = (*args[:1], *("meta" if _is_away(value) else value for value in args[1:]))
    if _is_away(kwargs.get("device")):
        kwargs = kwargs | {"device": "meta"}
    return args, kwargs


def _is_away(value: Any) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] in AWAY
    return isinstance(value, torch.device) and value.type in AWAY


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if inplace or not training or not 0 < p < 1 or not input.is_meta:
        return NotImplemented
    return torch.native_dropout(input, p, True)[0]


def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    if not input.is_meta or (weight is not None and weight.dtype != input.dtype):  # of two dtypes CUDA has no kernel
        return NotImplemented
    return FusedRmsNorm.apply(input, weight, list(normalized_shape), eps)


class FusedRmsNorm(torch.autograd.Function):
    """An RMS norm and its gradient as one operator each, which autograd takes apart on meta."""

    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, shape: list[int], eps: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            made, rstd = aten._fused_rms_norm(input, shape, weight, eps)
        ctx.save_for_backward(input, rstd, weight)
        ctx.shape = shape
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        input, rstd, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[1]]
        with torch._C._AutoDispatchBelowAutograd():
            made = aten._fused_rms_norm_backward(gradient, input, ctx.shape, rstd, weight, wanted)
        return made[0], made[1], None, None


def _softmax_of(operator: Any) -> Callable[..., Any]:
    """CUDA reads fp16 and writes fp32 in one kernel where code wants a softmax in fp32; it casts bf16 first."""

    def made(input: Any, dim: Any = None, *rest: Any, dtype: Any = None, **_more: Any) -> Any:
        wanted = dtype or next((one for one in rest if isinstance(one, torch.dtype)), None)
        is_half = isinstance(input, torch.Tensor) and input.is_meta and input.dtype == torch.float16
        if not is_half or wanted != torch.float32 or not isinstance(dim, int):
            return NotImplemented
        return operator(input, dim, True)

    return made


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if not query.is_meta:
        return NotImplemented
    return cuda_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def cuda_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention by the backend that PyTorch would choose on a GPU."""
    backend = attention_backend(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    needs = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
    if backend == "cudnn":
        mask = _additive(attn_mask, query.dtype)
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, mask, needs, dropout_p, is_causal, False, scale=scale
        )[0]
    if backend == "flash":
        width = query.shape[-1]
        scale = 1 / math.sqrt(width) if scale is None else scale
        query, key, value = (_padded(one, ALIGNED) for one in (query, key, value))
        made = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return made[..., :width] if made.shape[-1] != width else made
    if enable_gqa:
        key, value = (_repeated(one, query.shape[-3]) for one in (key, value))
    if backend == "efficient":
        mask = _additive(attn_mask, query.dtype)
        if mask is not None:
            mask = _bias(mask, (*query.shape[:-1], key.shape[-2]))
        made = aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, needs, dropout_p, is_causal, scale=scale
        )
        return made[0]
    return _math_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def attention_backend(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, enable_gqa: bool
) -> str:
    """cudnn, flash, efficient or math: the first whose checks in PyTorch's sdp_utils.cpp pass on a Hopper GPU.

    That cuDNN comes first there is seen in profiles of torch 2.11 on an H200, with masks and without.
    """
    del dropout_p
    shape = query.shape
    if query.dim() != 4 or key.dim() != 4 or min(shape[-2], key.shape[-2], shape[-1]) == 0:
        return "math"
    if not all(one.stride(-1) == 1 for one in (query, key, value)):
        return "math"
    if shape[-3] != key.shape[-3] and not (enable_gqa and shape[-3] % key.shape[-3] == 0):
        return "math"  # heads that are broadcast
    is_half = query.dtype in (torch.bfloat16, torch.float16)
    is_square = shape[-2] == key.shape[-2]
    is_even = shape[-1] == key.shape[-1] == value.shape[-1]
    widths = (shape[-1], key.shape[-1], value.shape[-1])
    is_constant = mask is None or not mask.requires_grad
    if is_half and is_constant and all(width % ALIGNED == 0 and width <= CUDNN_WIDTH for width in widths):
        return "cudnn"
    if mask is None and is_half and is_even and shape[-1] <= FLASH_WIDTH and (is_square or not is_causal):
        return "flash"
    if enable_gqa and shape[-3] != key.shape[-3]:
        return "math"
    if not is_constant:
        return "math"
    aligned = ALIGNED if is_half else ALIGNED // 2
    if shape[-1] % aligned or value.shape[-1] % aligned or key.shape[0] != shape[0]:
        return "math"
    return "efficient"


def _padded(tensor: Any, multiple: int) -> Any:
    short = -tensor.shape[-1] % multiple
    return F.pad(tensor, (0, short)) if short else tensor


def _repeated(tensor: Any, num_heads: int) -> Any:
    repeats = num_heads // tensor.shape[-3]
    return tensor if repeats == 1 else tensor.repeat_interleave(repeats, -3)


def _additive(mask: Any, dtype: torch.dtype) -> Any:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _bias(mask: Any, shape: tuple[int, ...]) -> Any:
    """Rows of whole 16 elements, as efficient attention needs them, and one for each head without a copy."""
    width = mask.shape[-1]
    if width % BIAS_ALIGNED:
        mask = _padded(mask, BIAS_ALIGNED)[..., :width]
    return mask.expand(shape)


def _math_attention(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, scale: Any) -> Any:
    """As `_scaled_dot_product_attention_math`: in fp32, with scores and what is made of them in memory."""
    dtype = query.dtype
    if is_causal:
        ones = torch.ones((query.shape[-2], key.shape[-2]), dtype=torch.bool, device=query.device)
        mask = ones.tril()
    mask = _additive(mask, dtype)
    if dtype in (torch.bfloat16, torch.float16):
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else abs(scale))
    scores = torch.matmul(query * factor, key.transpose(-2, -1) * factor)
    if mask is not None:
        scores = scores.add_(mask)
    chances = aten._safe_softmax(scores, -1) if mask is not None else torch.softmax(scores, -1)
    if dropout_p > 0:
        chances = torch.native_dropout(chances, dropout_p, True)[0]
    made = torch.matmul(chances, value).to(dtype)
    chances.to(dtype)  # which PyTorch returns too, and no operator reads
    return made


def _recurrence(kind: str) -> Callable[..., Any]:
    """On a GPU all positions are one call of cuDNN, whose time nothing we have measured says."""

    def refused(*_args: Any, **_kwargs: Any) -> Any:
        way = "; the model alone is captured without a chip" if kind == "LSTM" else ""
        raise NotModelled(f"nn.{kind}{user_line()} is one call of cuDNN on a GPU, whose time is not modelled{way}")

    return refused


_softmax, _log_softmax = _softmax_of(aten._softmax), _softmax_of(aten._log_softmax)
WHOLE: dict[Any, Callable[..., Any]] = {
    torch.softmax: _softmax,
    torch.Tensor.softmax: _softmax,
    torch.log_softmax: _log_softmax,
    torch.Tensor.log_softmax: _log_softmax,
    F.scaled_dot_product_attention: _attention,
    F.dropout: _dropout,
    torch.dropout: lambda input, p, train: _dropout(input, p, train),
    F.rms_norm: _rms_norm,
    torch.rms_norm: _rms_norm,
    torch.lstm: _recurrence("LSTM"),
    torch.gru: _recurrence("GRU"),
    torch.rnn_tanh: _recurrence("RNN"),
    torch.rnn_relu: _recurrence("RNN"),
}


@contextmanager
def cuda_functions(autocast: Autocast, functions: CudaFunctions | None = None) -> Iterator[None]:
    """While it lasts, code that asks for CUDA's autocast gets ours, and checkpoints save its state.

    Functions run as `functions` takes them.
    """
    contexts: dict[int, list[torch.dtype | None]] = {}

    def made(
        context: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        context.device = device_type
        context.fast_dtype = dtype or autocast.default
        context._enabled = enabled
        context._cache_enabled = cache_enabled

    def enter(context: Any) -> Any:
        if context.device != "cpu":
            before = autocast.enter(context.fast_dtype if context._enabled else None)
            contexts.setdefault(id(context), []).append(before)
        return context

    def leave(context: Any, *_error: Any) -> bool:
        if context.device != "cpu":
            autocast.leave(contexts[id(context)].pop())
        return False

    def is_enabled(kind: str = "cuda") -> bool:
        return kind != "cpu" and autocast.dtype is not None

    def fast_dtype(_kind: str = "cuda") -> torch.dtype:
        return autocast.dtype or autocast.default

    def on_cuda(*_args: Any) -> str:
        return "cuda"  # a checkpoint then asks for the state of its autocast

    patched = (
        mock.patch.object(torch.autocast, "__init__", made),
        mock.patch.object(torch.autocast, "__enter__", enter),
        mock.patch.object(torch.autocast, "__exit__", leave),
        mock.patch.object(torch, "is_autocast_enabled", is_enabled),
        mock.patch.object(torch, "get_autocast_dtype", fast_dtype),
        mock.patch.object(torch, "get_autocast_gpu_dtype", fast_dtype),
        mock.patch("torch.utils.checkpoint._infer_device_type", on_cuda),
        mock.patch("torch.amp.is_autocast_available", return_value=True),
    )
    for one in patched:
        one.start()
    try:
        with functions or CudaFunctions(autocast):
            yield
    finally:
        for one in reversed(patched):
            one.stop()
