"""Arguments of calls and options of commands: the same bounds, and errors that say which of them was wrong."""

from __future__ import annotations

import math

import pytest

from dovetail.api.arguments import count, entry_named, num_tokens
from dovetail.errors import InvalidInput
from dovetail.search.metrics import metrics


@pytest.mark.parametrize(
    ("given", "many"), [("", 0.0), ("15T", 15e12), ("300 B", 300e9), (0, 0.0), (7, 7.0), (1.5e9, 1.5e9)]
)
def test_tokens_are_text_with_a_letter_or_a_number(given, many):
    assert num_tokens("--tokens", given) == many


@pytest.mark.parametrize("given", ["15X", "much", -1, math.inf, math.nan])
def test_tokens_that_are_no_number_are_refused_by_the_name_they_were_given_under(given):
    with pytest.raises(InvalidInput) as raised:
        num_tokens("tokens", given)
    assert "tokens" in str(raised.value)


def test_an_entry_is_found_by_its_name_and_an_error_says_which_option_named_it():
    assert entry_named(metrics, "throughput", "--metric") is metrics["throughput"]
    with pytest.raises(InvalidInput, match=r"no metric is named 'thruput'; did you mean throughput.*\(--metric\)"):
        entry_named(metrics, "thruput", "--metric")


@pytest.mark.parametrize(
    ("text", "many"), [("12", 12), (" 12\n", 12), ("\x1e12", 12), ("\x1f1_000\u2003", 1000), (None, 0)]
)
def test_a_count_is_read_without_what_stands_around_it(text, many):
    assert count("--top", text) == many


@pytest.mark.parametrize("text", ["", "1\x1e2", "1e3", "0", "-1", "9" * 5000, "\x1e" * 5000])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(InvalidInput, match="--top must be"):
        count("--top", text)
