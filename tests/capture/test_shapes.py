"""Inputs of a module, as people write them on a command line."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.importers.shapes import InputShape, input_shapes


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:fp32[2,3]", [("x", "float32", (2, 3))]),
        (" a : int [ 2 , 3 ] ; b:bool[]", [("a", "int64", (2, 3)), ("b", "bool", ())]),
        ("bf16[8,3,224,224],int64[8]", [("", "bfloat16", (8, 3, 224, 224)), ("", "int64", (8,))]),
    ],
)
def test_inputs_are_read_as_people_write_them(text, shapes):
    assert input_shapes(text) == tuple(InputShape(name=n, dtype=d, sides=s) for n, d, s in shapes)


@pytest.mark.parametrize(
    "text", ["", " ", "x:", "x:fp32", "x:fp32[2", "x:fp32[2,,3]", "x:fp32[0]", "x:fp32[99999999999]", "x:fp32[-1]",
             "x:fp32[1] y:fp32[1]", "x:fp32[1],int64[2]", "x:fp32[1],x:fp32[1]", "x:fp32[1,1,1,1,1,1,1,1,1]",
             ",".join(["fp32[1]"] * 65), "x:fp32[1],"],
)  # fmt: skip
def test_inputs_that_say_nothing_are_refused(text):
    with pytest.raises(InvalidInput) as caught:
        input_shapes(text)
    assert "\n" not in str(caught.value)
