"""Verdicts of claims: what counts as met, and what cannot be compared."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dovetail.hardware.catalog import chips
from dovetail.papers.mappers import OURS, PAPERS
from dovetail.papers.verdicts import NOT_COMPARABLE, NOT_REPRODUCED, REPRODUCED, Claim, Reading, accepted


def claim(figure, *reported, **more) -> Claim:
    first = Reading(what="first", paper_mapper=figure, ours=2.0)
    other = Reading(what="other", paper_mapper=reported[0], ours=reported[0])
    return Claim(what="a claim", reported=reported, readings=(first, other), **more)


@pytest.mark.parametrize(
    ("figure", "reported", "verdict"),
    [
        (1.15, (1.12, 1.23), REPRODUCED),
        (1.28, (1.12, 1.23), REPRODUCED),
        (1.31, (1.12, 1.23), NOT_REPRODUCED),
        (1.0, (1.12, 1.23), NOT_REPRODUCED),
        (0.9, (1.12, 1.23), NOT_REPRODUCED),
        (8.0**0.74, (8.0,), NOT_REPRODUCED),
        (8.0**0.76, (8.0,), REPRODUCED),
        (8.0**1.24, (8.0,), REPRODUCED),
        (8.0**1.26, (8.0,), NOT_REPRODUCED),
    ],
)
def test_a_figure_within_a_quarter_of_the_effect_reproduces_it(figure, reported, verdict):
    assert claim(figure, *reported).verdict == verdict


def test_only_the_first_reading_by_the_papers_mapper_counts():
    missed = claim(3.0, 8.0)
    assert missed.verdict == NOT_REPRODUCED
    assert "3.00 by the paper's mapper is below the" in missed.why
    assert "above" in claim(300.0, 8.0).why


def test_higher_is_met_by_anything_above_and_not_by_the_same():
    assert claim(1.01, 1.0, is_floor=True).verdict == REPRODUCED
    assert claim(1.0, 1.0, is_floor=True).verdict == NOT_REPRODUCED
    assert claim(0.99, 1.0, is_floor=True).verdict == NOT_REPRODUCED
    assert accepted((1.0,), is_floor=True) == (1.0, math.inf)


def test_what_was_not_measured_or_not_published_is_not_comparable():
    assert claim(None, 8.0).verdict == NOT_COMPARABLE
    kept = claim(8.0, 8.0, obstacle="nobody knows")
    assert kept.verdict == NOT_COMPARABLE
    assert kept.why.startswith("nobody knows")
    assert replace(kept, readings=()).why == "nobody knows"


def test_a_figure_of_ours_must_be_above_the_least():
    assert claim(1.0, 8.0, least=1.9).holds
    assert not claim(9.0, 8.0, least=2.1).holds


@pytest.mark.parametrize("name", ["wham-tpuv2", "phaze-tpuv4", "nest-tpuv4", "nvdla-like", "tpu-v2", "tpu-v4"])
def test_our_mapper_is_that_of_the_catalogue_and_the_papers_is_another(name):
    chip = chips[name]()
    assert OURS.on(chip) == chip
    theirs = PAPERS.on(chip)
    assert (theirs.tensor.tiling.stationary, theirs.tensor.tiling.fill) == (("weight",), "whole")
    assert OURS.on(theirs) == chip
