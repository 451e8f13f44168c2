"""Listening to a forward pass: functions that are one step to us, and below them the operators of all others."""

from __future__ import annotations

import types as python_types
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  the name everyone gives it
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dovetail.errors import InvalidInput
from dovetail.importers.torch_failures import (
    check_autocast,
    data_dependent,
    too_many_operators,
    unknown_operator,
    user_line,
)
from dovetail.importers.torch_flop import product_flop
from dovetail.importers.torch_functions import FINITE, MOVES, WHOLE, at_home
from dovetail.importers.torch_known import KnownNumbers
from dovetail.importers.torch_memo import MetaResults
from dovetail.importers.torch_operands import CHECKED, check_operands
from dovetail.importers.torch_operators import DATA_DEPENDENT, SILENT, Call, Reader, Reading, reader_of
from dovetail.importers.torch_recurrence import run_lstm
from dovetail.importers.torch_tape import Tape, tensors_of

WRITTEN_OUT = (torch.tensor, torch.as_tensor, torch.asarray)
MOST_STEPS = 40_000  # twice those of the deepest decoders in use, mixtures of 94 layers
REPEATS = (torch.repeat_interleave, torch.Tensor.repeat_interleave)


class _Operator:
    """What is to be known of an operator whenever it runs, looked up once."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name: str = schema.name
        self.names = tuple(argument.name for argument in schema.arguments)
        self.written = tuple(
            place
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        self.reader: Reader | None = reader_of(schema.name)

    def targets(self, args: Any, kwargs: Any) -> list[torch.Tensor]:
        """What it writes into: itself, or `out`."""
        given = [args[place] if place < len(args) else kwargs.get(self.names[place]) for place in self.written]
        return tensors_of(given)


class OperatorListener(TorchDispatchMode):
    """Records each operator that reaches the dispatcher, and counts what its products compute."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape
        self.known = KnownNumbers()
        self.is_muted = False
        self.flop = 0
        self._operators: dict[Any, _Operator] = {}
        self._results = MetaResults()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = _Operator(func)
        operands = tensors_of((*args, *kwargs.values()))
        if not all(tensor.is_meta for tensor in operands):
            if not any(tensor.is_meta for tensor in operands):
                return self._on_the_host(func, operator, args, kwargs)
            args, kwargs = self.tape.all_on_meta(args), self.tape.all_on_meta(kwargs)
            operands = tensors_of((*args, *kwargs.values()))
        if operator.name in CHECKED:
            check_operands(operator.name, args, self.known.of, self.tape.where)
        self.flop += product_flop(operator.name, args, kwargs)
        if self.is_muted or operator.name in SILENT:
            return self._results.run(func, args, kwargs)
        return self._recorded(func, operator, args, kwargs, operands)

    def add_flop(self, flop: int) -> None:
        self.flop += flop

    def _recorded(self, func: Any, operator: _Operator, args: Any, kwargs: Any, operands: list[torch.Tensor]) -> Any:
        tape, name = self.tape, operator.name
        check_autocast(tape.where)
        if len(tape.steps) >= MOST_STEPS:
            raise too_many_operators(name, MOST_STEPS, tape.where, user_line())
        if name in DATA_DEPENDENT or _picks_by_truth(name, args):
            return self._answered(func, name, args, kwargs)
        if operator.reader is None:
            raise unknown_operator(name, operands, tape.where)
        written = operator.targets(args, kwargs)
        is_out = bool(written) and not name.endswith("_") and "out" in kwargs
        read = tensors_of(args) if is_out else operands
        inputs = tuple([tape.number(tensor) for tensor in read])
        arguments = dict(zip(operator.names, args, strict=False)) | kwargs
        reading = operator.reader(
            Call(name=name, arguments=arguments, inputs=inputs, number=tape.number, weight=tape.weight)
        )
        if not isinstance(reading, Reading):
            raise InvalidInput(f"the reader of {name} must give a Reading; got {type(reading).__name__}")
        made = self._results.run(func, args, kwargs)
        self.known.follow(func, name, args, kwargs, made, written)
        if written and (is_out or name.endswith("_")):
            tape.write_over(reading, written[0], name)
        else:
            tape.write_step(reading, tensors_of((made,)), name)
        return made

    def _answered(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Numbers of a tensor that are known although it has none."""
        numbers = self.known.of(args[0])
        if numbers is None or name != "aten::_local_scalar_dense":
            raise data_dependent(name, self.tape.where, user_line())
        return func(numbers, *args[1:], **kwargs)

    def _on_the_host(self, func: Any, operator: _Operator, args: Any, kwargs: Any) -> Any:
        """Operators on tensors with numbers, which are no part of the model; until one of them is moved into it."""
        made = func(*args, **kwargs)
        for tensor in tensors_of((made,)):
            if tensor.is_meta:
                self.tape.made_of_nothing(tensor, operator.name)
                self.known.follow(func, operator.name, args, kwargs, tensor, [])
        return made


class FunctionListener(TorchFunctionMode):
    """Records a function of `WHOLE` as one step, and mutes the operators below it while it runs."""

    def __init__(self, operators: OperatorListener) -> None:
        super().__init__()
        self.operators = operators

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            with self:
                return _OPENED_ATTENTION(*args, **kwargs)
        if func in MOVES or "device" in kwargs:
            args, kwargs, moved = at_home(func, args, kwargs)
            if moved:
                self.operators.tape.moves[moved] += 1
            if func in MOVES and func is not torch.Tensor.to:
                return args[0]
        if func in WRITTEN_OUT and not isinstance(args[0] if args else kwargs.get("data"), torch.Tensor):
            return self._with_numbers(func, args, kwargs)
        if func is torch.Tensor.tolist and (numbers := self.operators.known.of(args[0])) is not None:
            return numbers.tolist()
        if func in REPEATS and kwargs.get("output_size") is None:
            kwargs = kwargs | self._repeated(args, kwargs)
        reader = WHOLE.get(func)
        if reader is None or self.operators.is_muted:
            return func(*args, **kwargs)
        whole = reader(*args, **kwargs)
        if whole is None:
            return func(*args, **kwargs)
        return self._as_one_step(func, args, kwargs, whole)

    def _repeated(self, args: Any, kwargs: Any) -> dict[str, int]:
        """How many rows repeating each so often makes, where the numbers of repeats are known."""
        repeats = args[1] if len(args) > 1 else kwargs.get("repeats")
        numbers = self.operators.known.of(repeats) if isinstance(repeats, torch.Tensor) else None
        return {} if numbers is None else {"output_size": int(numbers.sum())}

    def _as_one_step(self, func: Any, args: Any, kwargs: Any, whole: Any) -> Any:
        tape = self.operators.tape
        check_autocast(tape.where)
        reading = whole.reading(tape.number)
        self.operators.is_muted = True
        try:
            made = run_lstm(self.operators.add_flop, args) if func is torch.lstm else func(*args, **kwargs)
        finally:
            self.operators.is_muted = False
        op = f"torch.{getattr(func, '__name__', whole.word)}"
        if any(tensor is made for tensor in whole.operands):
            tape.write_over(reading, made, op)
        else:
            tape.write_step(reading, tensors_of((made,)), op)
        if func in FINITE:
            self.operators.known.take_as_finite(made, True)
        return made

    def _with_numbers(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor written out in the module's code: its numbers are known."""
        numbers = func(*args, **(kwargs | {"device": "cpu"})).detach()
        made = torch.empty_like(numbers, device="meta")
        self.operators.known.learn(made, numbers)
        return made.requires_grad_(bool(kwargs.get("requires_grad", False)))


def _opened_attention() -> Any:
    """`F.multi_head_attention_forward` that does not hand itself over, so that the functions within it do."""
    function = F.multi_head_attention_forward
    names = function.__globals__ | {"has_torch_function": lambda _tensors: False}
    opened = python_types.FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


_OPENED_ATTENTION = _opened_attention()


def _picks_by_truth(name: str, args: Any) -> bool:
    """An index of truth values: how many elements it picks is not known without them."""
    return name in ("aten::index", "aten::_unsafe_index") and any(
        tensor is not None and tensor.dtype in (torch.bool, torch.uint8) for tensor in args[1]
    )
