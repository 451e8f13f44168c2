"""Which places a token's experts lie on: closed forms beside counted choices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.experts import Experts
from dovetail.workload.routing import ExpertChoice, Routing, expected_imbalance, places_reached


def counted(choice: ExpertChoice, num_places: int) -> float:
    """The mean over all choices: of groups, then of experts in them."""
    size, reached, num = choice.num_experts // choice.num_groups, 0, 0
    for groups in combinations(range(choice.num_groups), choice.num_groups_per_token):
        open_experts = [group * size + one for group in groups for one in range(size)]
        for chosen in combinations(open_experts, choice.num_experts_per_token):
            reached += len({expert * num_places // choice.num_experts for expert in chosen})
            num += 1
    return reached / num


@pytest.mark.parametrize("num_places", [1, 2, 4, 8])
@pytest.mark.parametrize(("chosen", "groups", "chosen_groups"), [(2, 1, 1), (3, 1, 1), (2, 4, 2), (3, 2, 1), (3, 4, 3)])
def test_places_reached_are_those_of_all_choices_counted(num_places, chosen, groups, chosen_groups):
    choice = ExpertChoice(
        num_experts=8, num_experts_per_token=chosen, num_groups=groups, num_groups_per_token=chosen_groups
    )
    assert places_reached(choice, num_places) == pytest.approx(counted(choice, num_places))


def test_deepseek_reaches_at_most_four_of_eight_nodes():
    grouped = ExpertChoice(num_experts=256, num_experts_per_token=8, num_groups=8, num_groups_per_token=4)
    free = ExpertChoice(num_experts=256, num_experts_per_token=8)
    assert places_reached(grouped, 8) == pytest.approx(3.63, abs=0.02)
    assert places_reached(free, 8) == pytest.approx(5.30, abs=0.02)


def test_the_expected_imbalance_is_that_of_tokens_drawn_at_random():
    choice, tokens, devices = ExpertChoice(num_experts=32, num_experts_per_token=4), 2048, 8
    rng = np.random.default_rng(0)
    loads = []
    for _ in range(150):
        chosen = np.argsort(rng.random((tokens, 32)), axis=1)[:, :4]
        rows = np.bincount((chosen * devices // 32).ravel(), minlength=devices)
        loads.append(rows.max() / rows.mean())
    assert expected_imbalance(choice, tokens, devices) == pytest.approx(np.mean(loads), abs=0.003)


def test_more_tokens_are_more_even_and_one_device_has_the_mean():
    choice = ExpertChoice(num_experts=128, num_experts_per_token=8)
    few, many = (expected_imbalance(choice, tokens, 32) for tokens in (1_024, 65_536))
    assert 1.0 < many < few
    assert expected_imbalance(choice, 1_024, 1) == 1.0
    assert Routing(is_random=True).most(32, few) == few
    assert Routing(is_random=True, expert_imbalance=2.0).most(32, few) == 2.0
    assert Routing().most(32, few) == 1.0


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ({"num_groups": 3}, "num_groups=3 must divide num_experts=8"),
        ({"num_groups": 2, "num_groups_per_token": 3}, "num_groups_per_token=3 must not exceed num_groups=2"),
        ({"num_groups": 8, "num_groups_per_token": 1}, "1 of 8 groups hold 1 experts"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, told):
    with pytest.raises(InvalidInput, match=told):
        Experts(num_experts=8, num_experts_per_token=2, width=64, **groups)
