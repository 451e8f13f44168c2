from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.chip_names import full_name


@pytest.mark.parametrize(
    ("word", "name"),
    [("h20", "h20-sxm"), ("h200", "h200-sxm"), ("l4", "l4"), ("mi250x", "mi250x"), ("H800", "h800-sxm")],
)
def test_the_beginning_of_a_name_is_enough_where_one_chip_has_it_as_a_whole_word(word, name):
    assert full_name(word) == name


def test_a_beginning_of_several_names_is_refused_with_all_of_them():
    with pytest.raises(InvalidInput, match="a100-80gb-pcie, a100-80gb-sxm"):
        full_name("a100-80gb")
