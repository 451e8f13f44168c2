from __future__ import annotations

import itertools

from dovetail.workload.recorded.cuts import pieces_of, signature
from dovetail.workload.recorded.drafted import Draft
from dovetail.workload.recorded.sizes import ONE, Size


def draft(makes: int, *reads: int, kind: str = "linear", operator: str = "", weight: int = 1, is_early: bool = False):
    return Draft(
        kind=kind,
        name=f"d{makes}",
        operator=operator or kind,
        reads=list(reads),
        makes=makes,
        sizes=[ONE, Size(4, num_batch=1), Size(8), Size(8), ONE],
        weight=weight,
        is_early=is_early,
    )


def cut(*drafts: Draft) -> list[list[int]]:
    """What the pieces make, value by value."""
    return [[each.makes for each in piece.drafts] for piece in pieces_of(list(drafts))]


def test_a_chain_is_cut_between_any_two_products():
    assert cut(draft(1), draft(2, 1), draft(3, 2)) == [[1], [2], [3]]


def test_an_activation_goes_with_the_product_before_it():
    assert cut(draft(1), draft(2, 1, kind="vector", operator="relu"), draft(3, 2)) == [[1, 2], [3]]


def test_a_loss_and_the_steps_of_a_recurrence_go_with_what_is_before_them():
    drafts = (draft(1), draft(2, 1, kind="recurrent_linear"), draft(3, 2), draft(4, 3, kind="loss"))
    assert cut(*drafts) == [[1, 2], [3, 4]]


def test_a_residual_is_not_cut_through():
    drafts = (draft(1), draft(2, 1), draft(3, 2), draft(4, 1, 3, kind="vector", operator="add"), draft(5, 4))
    assert cut(*drafts) == [[1], [2, 3, 4], [5]]


def test_a_tensor_that_many_later_parts_read_goes_past_cuts():
    """An encoder's output: every layer of the decoder reads it, beside what the layer before it gave."""
    drafts = (draft(1), draft(2, 1), draft(3, 2, 1), draft(4, 3, 1), draft(5, 4, 1))
    pieces = pieces_of(list(drafts))
    assert [[each.makes for each in piece.drafts] for piece in pieces] == [[1], [2], [3], [4], [5]]
    assert pieces[2].comes_in == (1, 2)
    assert pieces[3].goes_on == (1, 4)


def test_a_tensor_that_two_later_parts_read_does_not():
    assert cut(draft(1), draft(2, 1), draft(3, 2), draft(4, 3, 1)) == [[1], [2, 3, 4]]


def test_branches_of_one_block_are_not_cut_apart():
    """Three branches read one tensor and are joined: while one runs the results of the others wait."""
    join = draft(8, 3, 5, 7, kind="vector", operator="concat")
    branches = (draft(2, 1), draft(3, 2), draft(4, 1), draft(5, 4), draft(6, 1), draft(7, 6))
    assert cut(draft(1), *branches, join, draft(9, 8)) == [[1], [2, 3, 4, 5, 6, 7, 8], [9]]


def test_a_skip_from_the_way_down_to_the_way_up_keeps_all_between_together():
    down = (draft(1), draft(2, 1), draft(3, 2))
    up = (draft(4, 3), draft(5, 4, 2, kind="vector", operator="concat"), draft(6, 5))
    assert cut(*down, *up) == [[1], [2], [3, 4, 5], [6]]


def test_everything_that_reads_data_is_in_the_first_piece():
    drafts = (draft(1), draft(2, 1), draft(3), draft(4, 2, 3), draft(5, 4))
    assert cut(*drafts) == [[1, 2, 3, 4], [5]]


def test_what_was_looked_up_for_a_later_stretch_waits_there():
    looked_up = (
        draft(1, kind="vector", operator="embedding", is_early=True),
        draft(2, kind="vector", operator="embedding", is_early=True),
    )
    drafts = (*looked_up, draft(3, 1), draft(4, 3), draft(5, 4, 2, kind="vector", operator="add"), draft(6, 5))
    assert cut(*drafts) == [[1, 2], [3], [4], [5], [6]]


def test_nothing_is_lost_and_nothing_comes_twice():
    drafts = [draft(1), *(draft(index, index - 1) for index in range(2, 30))]
    assert [each for piece in pieces_of(drafts) for each in piece.drafts] == drafts
    pieces = pieces_of(drafts)
    for before, after in itertools.pairwise(pieces):
        assert before.goes_on == after.comes_in
    assert pieces[0].comes_in == pieces[-1].goes_on == ()


def test_pieces_are_alike_by_what_they_do_and_not_by_their_names():
    _, one, two, wider = pieces_of([draft(1), draft(2, 1), draft(3, 2), draft(4, 3, weight=9)])
    assert signature(one) == signature(two)
    assert signature(two) != signature(wider)


def test_before_dropout_behind_a_norm_or_a_residual_a_layer_may_end():
    norm = draft(2, 1, kind="vector", operator="layernorm")
    dropped = draft(3, 2, kind="vector", operator="dropout")
    assert cut(draft(1), norm, dropped, draft(4, 3)) == [[1], [2], [3], [4]]
    after_product = draft(2, 1, kind="vector", operator="dropout")
    assert cut(draft(1), after_product, draft(3, 2)) == [[1, 2], [3]]
