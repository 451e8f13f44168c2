"""Results that are asked of PyTorch once: the same tensors as without, and none shared that PyTorch would not share."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'dovetail-codesign[torch]'")

import torch

from dovetail.importers.torch_memo import MetaResults

aten = torch.ops.aten


def on_meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def looks(made: object) -> list[tuple[object, ...]]:
    outputs = made if isinstance(made, tuple) else (made,)
    return [(tuple(each.shape), each.stride(), each.dtype, each.device, each.storage_offset()) for each in outputs]


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (aten.add.Tensor, (on_meta(4, 1, 8), on_meta(3, 1))),
        (aten.mul.Tensor, (on_meta(8, 4).t(), 2)),
        (aten.mul.Tensor, (on_meta(4, dtype=torch.long), 2.5)),
        (aten.mm.default, (on_meta(4, 8), on_meta(8, 2))),
        (aten.cat.default, ([on_meta(2, 3), on_meta(4, 3)], 0)),
        (aten.native_layer_norm.default, (on_meta(2, 4, 8), [8], on_meta(8), None, 1e-5)),
        (aten._to_copy.default, (on_meta(2, 4).t(),)),
    ],
)
def test_what_was_made_once_is_made_alike_and_anew(func, args):
    memo = MetaResults()
    first, second = memo.run(func, args, {}), memo.run(func, args, {})
    assert looks(first) == looks(second) == looks(func(*args))
    storages = [each.untyped_storage()._cdata for made in (first, second) for each in tensors(made)]
    assert len(set(storages)) == len(storages)


def tensors(made: object) -> tuple[torch.Tensor, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_equal_numbers_of_other_types_and_other_keywords_are_other_results():
    memo, whole = MetaResults(), on_meta(4, dtype=torch.long)
    assert [memo.run(aten.mul.Tensor, (whole, by), {}).dtype for by in (1, 1.0, True)] == [
        torch.int64,
        torch.float32,
        torch.int64,
    ]
    kinds = (torch.float32, torch.bfloat16, torch.float32)
    assert [memo.run(aten._to_copy.default, (whole,), {"dtype": kind}).dtype for kind in kinds] == list(kinds)


@pytest.mark.parametrize(
    ("func", "more"),
    [
        (aten._unsafe_view.default, ([8],)),
        (aten.view.default, ([8],)),
        (aten.detach.default, ()),
        (aten.add_.Tensor, (1,)),
    ],
)
def test_views_and_writes_keep_the_memory_of_their_operand(func, more):
    memo = MetaResults()
    for _ in range(2):
        operand = on_meta(2, 4)
        made = memo.run(func, (operand, *more), {})
        assert made.untyped_storage()._cdata == operand.untyped_storage()._cdata


def test_each_result_is_asked_of_pytorch_once():
    asked = []

    class Counted:
        _schema = aten.relu.default._schema

        def __call__(self, *args):
            asked.append(args)
            return aten.relu.default(*args)

    memo, func = MetaResults(), Counted()
    for shape in ((2, 3), (2, 3), (3, 2), (2, 3)):
        memo.run(func, (on_meta(*shape),), {})
    assert len(asked) == 2
