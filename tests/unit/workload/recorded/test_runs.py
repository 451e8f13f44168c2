from __future__ import annotations

from dovetail.workload.recorded.cuts import DraftSpan
from dovetail.workload.recorded.drafted import Draft
from dovetail.workload.recorded.runs import runs_of
from dovetail.workload.recorded.sizes import ONE, Size


def piece(width: int, *, kind: str = "linear", num_drafts: int = 1, weight: int = 0) -> DraftSpan:
    """One product, or more, told from others by its width."""
    drafts = tuple(
        Draft(
            kind=kind,
            name="x",
            operator=kind,
            reads=[0],
            makes=0,
            sizes=[ONE, Size(1, num_batch=1), Size(width), ONE, ONE],
            weight=weight if weight or kind != "linear" else width,
        )
        for _ in range(num_drafts)
    )
    return DraftSpan(drafts, (), ())


def line(text: str) -> list[DraftSpan]:
    """A letter a product; a dot has none."""
    return [piece(1, kind="vector") if letter == "." else piece(ord(letter)) for letter in text]


def test_the_same_piece_in_a_row_is_one_run():
    assert runs_of(line("aaaa")) == [(0, 1, 4)]


def test_pieces_that_come_back_in_turn_are_one_run_of_a_longer_period():
    assert runs_of(line("abcabcabc")) == [(0, 3, 3)]


def test_the_cover_that_takes_the_most_wins():
    assert runs_of(line("aabaab")) == [(0, 3, 2)]


def test_what_stands_before_and_behind_repeats_is_a_block_each():
    assert runs_of(line("xy" + "ab" * 20 + "z")) == [(0, 2, 1), (2, 2, 20), (42, 1, 1)]


def test_two_stacks_of_layers_are_two_runs():
    assert runs_of(line("xaaaabbbbz")) == [(0, 1, 1), (1, 1, 4), (5, 1, 4), (9, 1, 1)]


def test_a_first_layer_unlike_the_others_is_a_block_of_its_own():
    first = piece(7, num_drafts=3)
    stem = piece(1, kind="vector")
    layers = [piece(90)] * 6
    assert runs_of([stem, first, *layers]) == [(0, 1, 1), (1, 1, 1), (2, 1, 6)]


def test_a_stem_of_few_products_goes_with_what_is_before_the_repeats():
    stem = piece(1, kind="vector")
    assert runs_of([stem, piece(7), *[piece(90)] * 6]) == [(0, 2, 1), (2, 1, 6)]


def test_where_repeats_hold_little_a_stretch_without_products_goes_with_the_one_before_it():
    assert runs_of(line("a.b.c")) == [(0, 2, 1), (2, 2, 1), (4, 1, 1)]


def test_a_line_without_repeats_is_covered_once_and_in_order():
    found = runs_of(line("abcdefg"))
    assert [first for first, _, _ in found] == list(range(7))
    assert all(repeat == 1 for _, _, repeat in found)


def test_every_piece_is_in_one_run():
    for text in ("a", "aa", "aba", "abab", "abcabcab", "..aa..bb..", "xaaayaaaz", "a" * 200):
        covered = [
            place for first, period, repeat in runs_of(line(text)) for place in range(first, first + period * repeat)
        ]
        assert covered == list(range(len(text))), text
