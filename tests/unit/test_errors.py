"""Messages stay one readable line, whatever value is in them."""

from __future__ import annotations

import pytest

from dovetail.errors import MAX_CHARACTERS, MAX_SHOWN, InvalidInput, NotModelled, did_you_mean, shown
from dovetail.units import quantity


@pytest.mark.parametrize("kind", [InvalidInput, NotModelled])
def test_a_long_message_keeps_its_rule_and_its_way_out(kind):
    error = kind(f"the rule; got {'x' * 10_000}; the way out", "y" * 10_000)
    assert error.message.startswith("the rule; got xxx")
    assert error.message.endswith("xxx; the way out")
    assert max(len(error.message), len(error.where)) <= MAX_CHARACTERS
    assert len(error.at("z" * 10_000).where) <= MAX_CHARACTERS


def test_a_short_message_is_as_it_was():
    assert str(InvalidInput("a rule", "here")) == "a rule (here)"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (5, "5"),
        ("a", "'a'"),
        (None, "None"),
        ([0] * 3000, "a list of 3,000"),
        ({"a": 1}, "a dict of 1"),
        (2**9999, "a number of 10,000 bits"),
        ("a\u202eb\n", "'a\\u202eb\\n'"),
    ],
)
def test_a_value_is_shown_on_one_short_line(value, told):
    assert shown(value) == told


def test_a_long_text_is_cut_where_it_is_shown():
    assert shown("x" * 1000).endswith("...'")
    assert len(shown("x" * 1000)) == MAX_SHOWN + len("''")


@pytest.mark.parametrize("value", [[0] * 3000, 2**9999, "7" * 3000, "1e99999 GB", "5 " + "x" * 5000])
def test_a_quantity_that_is_none_is_told_in_few_words(value):
    with pytest.raises(InvalidInput) as caught:
        quantity(value, "bytes")
    assert len(str(caught.value)) < 200


def test_a_name_of_any_length_is_compared_with_known_ones():
    assert "did you mean ring" in did_you_mean("rings", ("ring", "switch"))
    assert "known: ring, switch" in did_you_mean("x" * 100_000, ("ring", "switch"))
