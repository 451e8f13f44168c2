from __future__ import annotations

import pytest

from dovetail.report.table import BAR_WIDTH, BLOCKS, WIDTH, Table, bar, lines, text_of

SENTENCE = "a sentence that is long enough to need a second line and then some more words to need a third one " * 2


def texts(table: Table) -> list[str]:
    return [line.text for line in lines(table)]


def test_columns_line_up_on_the_side_they_ask_for():
    table = Table(title="t", columns=("what", "much"), rows=(("a", "1"), ("bcdefg", "10000")), align="lr")
    assert texts(table) == ["t", "  what     much", "  a           1", "  bcdefg  10000"]


def test_a_table_without_columns_has_no_header():
    assert [line.kind for line in lines(Table(title="t", rows=(("a", "1"),)))] == ["title", "row"]


@pytest.mark.parametrize(
    "table",
    [
        Table(title=SENTENCE, rows=(("a", SENTENCE),)),
        Table(title="t", rows=((SENTENCE, SENTENCE, SENTENCE),)),
        Table(title="t", rows=(("x" * 300, "y" * 300),)),
        Table(title="t", rows=(("a" * 40, "b" * 40, "c" * 40, "1"),), align="lllr"),
        Table(title="t", notes=(SENTENCE, f"- {SENTENCE}")),
        Table(title="t", columns=tuple(f"column {i}" for i in range(9)), rows=(("1234.5",) * 9,), align="r" * 9),
    ],
    ids=["last column", "three sentences", "words without a break", "many", "notes", "nine columns"],
)
def test_no_line_is_longer_than_the_width(table):
    assert max(len(text) for text in texts(table)) <= WIDTH


def test_the_last_column_wraps_under_itself():
    laid = texts(Table(title="t", rows=(("key", SENTENCE),)))[1:]
    assert len(laid) > 1
    assert all(text.startswith(" " * 7) for text in laid[1:])
    assert " ".join(laid).split() == ["key", *SENTENCE.split()]


def test_a_bullet_hangs():
    first, second, *_ = texts(Table(title="t", notes=(f"- {SENTENCE}",)))[1:]
    assert first.startswith("  - a sentence")
    assert second.startswith("    ")


def test_columns_move_closer_before_anything_is_cut():
    table = Table(title="t", rows=(("x" * 26, "y" * 24, "z" * 25),))
    assert texts(table)[1] == f"  {'x' * 26} {'y' * 24} {'z' * 25}"


def test_nothing_is_cut_and_a_row_that_is_too_wide_becomes_a_list():
    row = ("1", "123,456.789 s", "+1,234.5 %", "a+word+longer+than+figures+are", "w" * 34, "and the last words go on")
    laid = texts(Table(title="t", rows=(row,), align="rrrrrl"))[1:]
    assert [text.strip() for text in laid] == list(row)
    assert not any("..." in text for text in laid)


HEADS = ("stage", "layers", "weights", "gradients", "optimizer", "activations", "buffers", "total")


def test_a_wide_table_with_few_rows_is_turned_in_a_narrow_terminal():
    rows = tuple((str(i), "20", "4.2", "8.5", "1.6", "21.0", "0.4", "35.6") for i in range(4))
    laid = [line.text for line in lines(Table(title="t", columns=HEADS, rows=rows, align="l" + "r" * 7), 60)]
    assert laid[1].split() == ["stage", "0", "1", "2", "3"]
    assert laid[6].split() == ["activations", "21.0", "21.0", "21.0", "21.0"]


def test_names_are_broken_at_hyphens_and_only_where_words_do_not_fit():
    rows = (("megatron-145.6b", "megatron", "145.6 B", "2,048", "Narayanan et al. 2021"),)
    table = Table(title="t", columns=("model", "family", "parameters", "seq", "source"), rows=rows, align="llrrl")
    wide, narrow = ([line.text for line in lines(table, width)] for width in (60, 52))
    assert wide[2].split()[0] == "megatron-145.6b"
    assert narrow[2].split()[0] == "megatron-"


def test_bars_get_shorter_together():
    rows = (("compute", "1", bar(1.0), "x"), ("rest", "2", bar(0.5), "y"))
    laid = [line.text for line in lines(Table(title="t", rows=rows), 30)][1:]
    full, half = (sum(c in BLOCKS[1:] for c in text) for text in laid)
    assert full in (2 * half, 2 * half + 1)
    assert full < BAR_WIDTH


def test_a_name_with_control_characters_stays_on_its_line():
    assert texts(Table(title="t", rows=(("a\nb\x1b[31m", "1"),)))[1] == "  a\\nb\\x1b[31m  1"


def test_rows_of_different_lengths_are_our_mistake():
    with pytest.raises(AssertionError, match=r"rows of \[1, 2\] cells"):
        Table(title="t", rows=(("a",), ("a", "b")))


def test_tables_stand_apart():
    assert text_of((Table(title="a"), Table(title="b"))) == "a\n\nb\n"


@pytest.mark.parametrize(
    ("share", "length"), [(0.0, 0), (1e-9, 1), (0.5, BAR_WIDTH // 2), (1.0, BAR_WIDTH), (1.5, BAR_WIDTH)]
)
def test_a_bar_is_as_long_as_its_share_and_never_vanishes(share, length):
    assert len(bar(share)) == length


def test_a_last_column_with_nothing_in_it_is_laid_out():
    assert texts(Table(title="t", columns=("a", ""), rows=(("1", ""),))) == ["t", "  a", "  1"]


def test_a_long_name_in_the_first_column_goes_on_below_further_in():
    rows = (("one", "1", "a word"), ("  a name that is far too long to stand on one line of this page", "2", "b"))
    table = Table(title="t", columns=("name", "n", "words"), rows=rows, align="lrl")
    assert texts(table)[3:] == [
        "    a name that is far too long to stand on one   2  b",
        "      line of this page",
    ]
