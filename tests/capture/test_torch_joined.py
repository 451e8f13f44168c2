"""A tensor that is taken apart by samples and put together again is one tensor, at any batch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from torch import nn  # noqa: E402

from dovetail.importers.torch_model import captured_module  # noqa: E402


class ByImage(nn.Module):
    """Features of a list of images, as models over text and images join them."""

    def __init__(self, *, reads_one: bool = False) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.reads_one = reads_one

    def forward(self, x):
        parts = list(self.inner(x))
        made = torch.cat(parts, dim=0)
        return made.sum() + parts[0].sum() if self.reads_one else made.sum()


def test_what_is_joined_again_is_a_view_at_any_batch():
    found = captured_module(ByImage(), (torch.zeros(2, 4, 8),)).recorded
    assert [step.word for step in found.base.steps] == [step.word for step in found.other_batch.steps]
    assert "concat" not in {step.word for step in found.base.steps}
    assert len(found.base.tensors) == len(found.other_batch.tensors)


def test_parts_that_somebody_else_reads_stay():
    found = captured_module(ByImage(reads_one=True), (torch.zeros(2, 4, 8),)).recorded
    assert "concat" in {step.word for step in found.base.steps}
